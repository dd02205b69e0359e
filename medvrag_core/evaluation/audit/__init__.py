"""Audit of printed numbers: what follows from a paper's own cells, and what they cannot have come from."""
