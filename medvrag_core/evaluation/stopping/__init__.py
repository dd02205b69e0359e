"""Rounds: what they recover, and when to stop."""
