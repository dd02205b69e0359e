"""What a run leaves on the disk, to be compared with another run."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

TIMES = {"throughput.json", ".verified.json"}
"""Files that tell how long something took, or when a file was read last."""


def digests_of(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder but for those of :data:`TIMES`, by its path in the folder."""
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in TIMES
    }


def answers_in(traces: Path) -> dict[str, dict[str, object]]:
    """Traces by file name, without the times that they tell."""
    return {path.name: _timeless(json.loads(path.read_text())) for path in sorted(traces.glob("*.json"))}


def _timeless(value: object) -> object:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if k not in {"seconds", "times", "at"}}
    return [_timeless(item) for item in value] if isinstance(value, list) else value
