"""ColQwen2.5, the paper's page encoder (section 3.1), on colpali-engine. Needs the extra ``gpu``.

Real code, written against colpali-engine 0.3; it was not run on a GPU for this release.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.base import PageEncoder, PageInput
from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.encoders.pooling import pool_vectors
from medvrag_core.errors import MedvragError
from medvrag_core.records import PageVectors
from medvrag_core.settings import EncoderSettings, fingerprint

VERSION = 2


class ColQwenEncoder(PageEncoder):
    """Page images to patch vectors, 128 wide, pooled to ``settings.vectors_per_page``.

    Raises
    ------
    MedvragError : torch, transformers or colpali-engine is missing
    """

    dim = 128

    def __init__(self, settings: EncoderSettings) -> None:
        try:
            import torch
            from colpali_engine.models import ColQwen2_5, ColQwen2_5_Processor
        except ImportError as error:
            raise MedvragError(
                f"encoder 'colqwen2.5' needs the package {error.name}", way_out="install the extra 'gpu'"
            ) from None
        self.settings = settings
        revision = settings.revision or None
        on_gpu = settings.device.startswith("cuda")
        self._processor: Any = ColQwen2_5_Processor.from_pretrained(
            settings.model, revision=revision, max_num_visual_tokens=settings.max_visual_tokens
        )
        # Set by name: releases of colpali-engine differ in the prefix they add on their own.
        self._processor.query_prefix = settings.query_prefix
        model: Any = ColQwen2_5.from_pretrained(
            settings.model,
            revision=revision,
            dtype=torch.bfloat16 if on_gpu else torch.float32,
            # On the CPU the faster kernel gives NaN for rows padded on the left.
            attn_implementation="sdpa" if on_gpu else "eager",
        )
        self._model = model.to(settings.device).eval()

    @property
    def fingerprint(self) -> str:
        """Model, revision and settings; the device and the batch do not count."""
        fixed = self.settings.model_copy(update={"device": "", "batch_size": 1})
        return f"colqwen-{VERSION}-{fingerprint(fixed)}"

    def encode_pages(self, pages: Iterable[PageInput]) -> Iterator[PageVectors]:
        """See :class:`PageEncoder`; only image tokens become patches, prompt and padding are left out."""
        waiting = iter(pages)
        while batch := list(islice(waiting, self.settings.batch_size)):
            yield from self._encode_batch(batch)

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """See :class:`PageEncoder`; queries are encoded one by one, so nothing is padded."""
        given = self._processor.process_queries([text])
        # bfloat16 leaves rows up to 0.2 % off unit length.
        return unit_rows(self._embed(given)[0])

    def _encode_batch(self, batch: list[PageInput]) -> Iterator[PageVectors]:
        from PIL import Image

        images = []
        for page in batch:
            with Image.open(page.image) as image:
                images.append(image.convert("RGB"))
        given = self._processor.process_images(images)
        is_patch = self._processor.get_image_mask(given).cpu().numpy().astype(bool)
        merge = self._model.spatial_merge_size
        grids = given["image_grid_thw"].cpu().numpy()[:, 1:] // merge
        for page, rows, patches, (down, across) in zip(batch, self._embed(given), is_patch, grids, strict=True):
            boxes = patch_boxes(int(down), int(across))
            if int(patches.sum()) != len(boxes):
                raise MedvragError(
                    f"page {page.page.page_id}: {int(patches.sum())} image tokens for a grid of {down} x {across}",
                    way_out="use a release of colpali-engine that this project names",
                )
            pooled = pool_vectors(rows[patches], self.settings.vectors_per_page)
            yield PageVectors(page.page.page_id, pooled.vectors, boxes, pooled.vector_of)

    def _embed(self, given: Any) -> NDArray[np.float32]:
        """Token vectors of a batch, float32, shape (batch, tokens, 128)."""
        import torch

        with torch.inference_mode():
            rows = self._model(**given.to(self.settings.device))
        vectors: NDArray[np.float32] = rows.float().cpu().numpy()
        if not np.isfinite(vectors).all():
            raise MedvragError(f"{self.settings.model} gave vectors that are not finite", way_out="set batch_size to 1")
        return vectors


def patch_boxes(down: int, across: int) -> NDArray[np.float32]:
    """Boxes of a patch grid, row by row, float32, shape (down * across, 4).

    >>> patch_boxes(1, 2).tolist()
    [[0.0, 0.0, 0.5, 1.0], [0.5, 0.0, 1.0, 1.0]]
    """
    y, x = np.divmod(np.arange(down * across), across)
    corners = [x / across, y / down, (x + 1) / across, (y + 1) / down]
    return np.stack(corners, axis=1).astype(np.float32)
