"""Whole systems as short compositions of the stages."""
