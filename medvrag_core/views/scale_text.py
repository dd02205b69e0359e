"""Stage 1 on machines of one size, and what gives way first, in plain text for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from medvrag_core.evaluation.scale.limits import Limit
from medvrag_core.evaluation.scale.outlook import MEASURED_TO, SizeOutlook
from medvrag_core.views.tables import byte_text, pages_text, seconds


def scale_lines(found: SizeOutlook, limits: Sequence[Limit]) -> list[str]:
    """Bytes, modes, where the index can lie, and the limits, a line each."""
    feet, machine = found.footprint, found.machine
    size = f"{machine.cores} cores, {machine.ram_gib:,.0f} GiB of memory, {machine.nvme_gb:,.0f} GB of disk"
    lines = [
        f"stage 1 on machines of {size} (--cores, --ram, --nvme)",
        f"  codes {byte_text(feet.codes)}, centroids {byte_text(feet.centroids)}, vectors {byte_text(feet.vectors)}, "
        f"page images and text {byte_text(feet.images)}",
    ]
    for mode in found.modes:
        beyond = f", a guess beyond {MEASURED_TO:,} pages" if mode.beyond else ""
        lines.append(
            f"  mode {mode.mode}: {mode.machines:,} machine{'s' * (mode.machines != 1)}, {mode.parts:,} parts; "
            f"one query {seconds(mode.median_s)}, 95th percentile {seconds(mode.p95_s)}; at most "
            f"{mode.queries_per_s:,.0f} queries a second{beyond}"
        )
        lines.append(f"    time: {mode.law}")
    for place in found.residences:
        if place.read:
            lines.append(
                f"  {place.what} (mode {place.mode}): {byte_text(place.ram)} in memory, {byte_text(place.read)} read a "
                f"query, {seconds(place.read_s)} more on {place.machines:,} machine{'s' * (place.machines != 1)}"
            )
    lines.append("what gives way first, one machine where nothing else is said")
    lines += [f"  at {pages_text(limit.pages)} pages: {limit.what} ({limit.why}); {limit.way_out}" for limit in limits]
    return lines
