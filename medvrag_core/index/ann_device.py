"""Where the ANN searches: on a GPU where FAISS has one, else on the CPU.

An index file is always that of a CPU; it is copied to the GPU when it is opened, so every machine can read it. Nothing
of this was run on a GPU: tests put a stand-in of FAISS's GPU functions in their place.
"""

from __future__ import annotations

from typing import Any

from medvrag_core.errors import MedvragError, SettingsError
from medvrag_core.settings import IndexSettings

MOST_NEIGHBORS = 2_048
"""Neighbors that FAISS finds for one vector on a GPU."""


def ann_device(settings: IndexSettings) -> str:
    """``cpu``, or ``cuda:N`` for a GPU that FAISS can use.

    ``auto`` stays on the CPU where FAISS has no GPU, for HNSW, which has no GPU form, and for more neighbors than a
    GPU finds.

    Raises
    ------
    SettingsError : the GPU that was asked for is not there, or cannot do what ``index`` asks for
    """
    import faiss

    asked, gpus = settings.device, int(faiss.get_num_gpus())
    if asked == "cpu":
        return "cpu"
    number = 0 if asked == "auto" else int(asked.partition(":")[2] or 0)
    against = ""
    if number >= gpus:
        against = f"FAISS {faiss.__version__} sees {gpus} GPUs"
    elif settings.ann == "hnsw":
        against = "'index.ann': hnsw has no GPU form"
    elif settings.ann_neighbors > MOST_NEIGHBORS:
        against = f"'index.ann_neighbors': {settings.ann_neighbors:,}, but a GPU finds {MOST_NEIGHBORS:,}"
    if not against:
        return f"cuda:{number}"
    if asked == "auto":
        return "cpu"
    raise SettingsError(
        f"'index.device': {asked} cannot be used; {against}",
        way_out="set index.device=cpu, or auto; environment.yml has the FAISS for GPUs",
    )


def on_device(ann: Any, device: str) -> Any:
    """An index of the CPU as ``device`` searches it; MedvragError when it finds no room there."""
    if device == "cpu":
        return ann
    import faiss

    try:
        return faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), int(device.removeprefix("cuda:")), ann)
    except RuntimeError as error:
        raise MedvragError(
            f"the ANN cannot be put on {device} ({str(error).strip().splitlines()[0]})",
            way_out="set index.device=cpu, or make the shares of the model servers on that GPU smaller",
        ) from None
