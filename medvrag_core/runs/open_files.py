"""How many files a process may hold open; a system begins with some 1,024, and an index of millions has more."""

from __future__ import annotations

from pathlib import Path

from medvrag_core.errors import MedvragError

_SPARE = 64
"""For sockets, pipes and whatever else is opened later."""


def allow_open_files(more: int) -> None:
    """Raise the bound of this process, if need be, so that so many more files can be open.

    Raises
    ------
    MedvragError : the system allows no more than are needed
    """
    try:
        import resource
    except ImportError:
        return  # There is no such bound on Windows.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _open_now() + more + _SPARE
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise MedvragError(
            f"{more:,} files are to be open at one time, and the system allows {hard:,} a process",
            way_out="raise `ulimit -Hn`, or divide the index (ray.index_servers)",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _open_now() -> int:
    listed = Path("/proc/self/fd")
    return len(list(listed.iterdir())) if listed.is_dir() else _SPARE
