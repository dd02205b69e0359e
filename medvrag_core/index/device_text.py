"""Where stage 1 computes, in one sentence."""

from __future__ import annotations

from medvrag_core.index.ann_device import ann_device
from medvrag_core.index.kernels.instructions import of_this_machine
from medvrag_core.index.torch_index import scan_device
from medvrag_core.settings import IndexSettings


def device_text(settings: IndexSettings) -> str:
    """What each mode does where; raises as :func:`ann_device` and :func:`scan_device` do."""
    codes = f"the CPU by int8 codes ({of_this_machine().name})"
    if settings.mode == "exact":
        device = scan_device(settings)
        return f"every page is scored on {codes if device == 'cpu' else device}"
    if settings.mode == "fast":
        return f"centroids and pages are scored on {codes}"
    import faiss

    gpus = f"FAISS {faiss.__version__} sees {faiss.get_num_gpus()} GPUs"
    return f"the ANN searches on {ann_device(settings)} ({gpus}), pages are scored on {codes}"
