"""Seconds, tokens, images, calls and money."""
