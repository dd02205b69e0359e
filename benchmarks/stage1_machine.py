"""What a measurement was taken on: processor, memory, load, versions."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FLAGS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "asimd", "asimddp", "i8mm", "sve")
"""What kernels of late interaction look for."""
THREADS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA", "RAYON", "VECLIB_MAXIMUM", "TOKIO_WORKER", "LANCE_CPU")
"""Names of pools of threads: as ``OMP_NUM_THREADS``, or with ``_THREADS``."""
BLAS = ("OPENBLAS_CORETYPE", "MKL_DEBUG_CPU_TYPE")
"""Variables that choose the kernels of a BLAS."""
_VERSIONS = """
import json, sys
from importlib.metadata import PackageNotFoundError, version
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def facts() -> dict[str, Any]:
    """Of this machine; what cannot be told here is missing or empty."""
    told = _fields("/proc/cpuinfo")
    flags = {*told.get("flags", told.get("Features", "")).split()}
    return {
        "cpu": told.get("model name") or platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "flags": [flag for flag in FLAGS if flag in flags],
        "cores": os.cpu_count(),
        "memory_gb": round(memory_gb("MemTotal"), 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "blas": {name: os.environ[name] for name in BLAS if name in os.environ},
        "load": load(),
    }


def load() -> float:
    """Processes that want a core, mean over the last minute."""
    return round(os.getloadavg()[0], 2)


def memory_gb(which: str) -> float:
    """``MemTotal`` or ``MemAvailable``; without limit where the system does not tell."""
    told = _fields("/proc/meminfo").get(which)
    return float("inf") if told is None else int(told.split()[0]) / 1e6


def versions(python: str, packages: Iterable[str]) -> dict[str, str]:
    """Of those packages that an interpreter has."""
    done = subprocess.run([python, "-c", _VERSIONS, *packages], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def pinned(threads: int) -> dict[str, str]:
    """The environment of a process whose libraries may use ``threads`` threads each.

    Threads of OpenMP that wait sleep: where other work holds one of them up, the others would spin, and that would
    count as their CPU time.
    """
    names = [f"{name}_{what}" for name in THREADS for what in ("NUM_THREADS", "THREADS")]
    return {**os.environ, "OMP_WAIT_POLICY": "PASSIVE", **{name: str(threads) for name in names}}


def _fields(path: str) -> dict[str, str]:
    """First values of lines ``name: value`` of a file of Linux; empty elsewhere."""
    found: dict[str, str] = {}
    if Path(path).is_file():
        for line in Path(path).read_text(encoding="ascii", errors="replace").splitlines():
            name, _, value = line.partition(":")
            found.setdefault(name.strip(), value.strip())
    return found
