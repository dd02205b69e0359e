"""Profiles that ship with the package, and how a profile is resolved."""
