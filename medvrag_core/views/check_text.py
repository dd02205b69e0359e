"""Checks of model servers in plain text, for the terminal."""

from __future__ import annotations

from medvrag_core.models.doctor import Check


def check_text(check: Check) -> str:
    """One line, and below it the setting to change."""
    head = f"{check.state:9}{check.role:16}{check.name:11}"
    return f"{head}{check.found}" + (f"\n{'':{len(head)}}-> {check.change}" if check.change else "")
