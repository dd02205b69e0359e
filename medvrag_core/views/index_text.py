"""The index for the terminal."""

from __future__ import annotations

from medvrag_core.index.tune import Tuning


def tuning_text(found: Tuning) -> str:
    """The curve of a mode, one line a setting, and the settings to use."""
    lines = [
        f"mode {found.mode}: {found.queries} queries of {found.query_vectors:.0f} vectors, {found.pages:,} pages, "
        f"recall of the best {found.at} of exact search ({found.exact_seconds * 1e3:,.1f} ms)",
        f"{'ms':>8}  {'recall':>7}  {'lowest':>7}  settings",
    ]
    for number, point in enumerate(found.points):
        changed = ", ".join(f"{name} {value:,}" for name, value in point.changed.items())
        chosen = "  <- chosen" if number == found.chosen else ""
        lines.append(f"{point.seconds * 1e3:>8.2f}  {point.recall:>7.4f}  {point.lowest:>7.4f}  {changed}{chosen}")
    if found.chosen is None:
        best = max(point.recall for point in found.points)
        lines.append(f"no setting reaches {found.wanted:g}; the highest is {best:.4f}. Mode exact finds all.")
    else:
        use = {"mode": found.mode} | found.points[found.chosen].changed
        lines.append("use: " + " ".join(f"--set index.{name}={value}" for name, value in use.items()))
    return "\n".join(lines)
