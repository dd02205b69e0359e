"""Inference: shares, means, paired contrasts of arms, power, pre-registration, controls."""
