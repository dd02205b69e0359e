"""ColQwen2.5, the paper's page encoder (section 3.1), and the other late-interaction models of colpali-engine.

Needs the extra ``gpu``. Written against colpali-engine 0.3.18 and run on tiny models of random weights on the CPU;
**not run on a GPU, nor on published weights**.

What the paper says and what the models are:

- *768 dimensions, reduced to 128 by PCA*: ColQwen2.5 is 128 wide by itself; see :mod:`.projection` and
  ``encoder.pca_dim``.
- *about 103 vectors a page*: it makes some 740; see :mod:`.pooling` and ``encoder.pool_factor``.
- *300 dpi*: a page is shrunk to ``encoder.max_visual_tokens`` squares of 28 x 28 pixels, so that any resolution above
  some 96 dpi gives the same number of vectors; 300 dpi is for the reader and for OCR.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.base import PageInput
from medvrag_core.encoders.batched import BatchedPageEncoder
from medvrag_core.encoders.checkpoints import find_checkpoint, load_model
from medvrag_core.encoders.families import FAMILIES, family_classes
from medvrag_core.encoders.identity import EncoderIdentity, weights_digest
from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.encoders.pooling import pool_by_factor
from medvrag_core.encoders.projection import Projection
from medvrag_core.errors import MedvragError, NotBuiltError, SettingsError
from medvrag_core.records import PageVectors
from medvrag_core.settings import EncoderSettings

VERSION = 3
_SAMPLE_PAGES = 128
_LARGEST_TURN = {"float32": 1e-3, "bfloat16": 0.2}
"""Distance of two unit vectors that may lie between a patch encoded alone and the same patch in a batch."""


@dataclass(frozen=True)
class ProcessedPage:
    """A page as the model takes it, in a batch of its own.

    Attributes
    ----------
    page_id : its id
    given : tensors by name, the first dimension 1
    boxes : float32, shape (image tokens, 4)
    """

    page_id: str
    given: dict[str, Any]
    boxes: NDArray[np.float32]


class LateInteractionEncoder(BatchedPageEncoder[ProcessedPage]):
    """Page images to patch vectors and queries to token vectors, of the family ``settings.name``.

    Only image tokens become patches; prompt and padding are left out, so each page keeps its own number of rows. In
    bfloat16 on a GPU, in float32 on the CPU.

    Raises
    ------
    MedvragError : a package is missing; the model or its processor does not do what the settings say
    InputError : the weights are not those of the family, not whole, or no safetensors
    SettingsError : weights or device are not there, or the cap on visual tokens cannot be kept
    """

    def __init__(self, settings: EncoderSettings) -> None:
        super().__init__(settings)
        model_class, processor_class = family_classes(settings.name)
        self._family = FAMILIES[settings.name]
        self._checkpoint = find_checkpoint(settings.model, settings.revision, settings.base_revision)
        self._processor: Any = _open_processor(processor_class, self._checkpoint.folder, settings.max_visual_tokens)
        self._model = load_model(model_class, self._checkpoint, device=settings.device)
        self._spare: SimpleQueue[Any] = SimpleQueue()
        self._projection: Projection | None = None
        self.dim = settings.pca_dim or int(self._model.dim)
        if settings.pca_dim > self._model.dim:
            raise SettingsError(
                f"encoder.pca_dim: {settings.pca_dim} is more than the {self._model.dim} of '{settings.model}'"
            )
        if self._family.query_prefix not in (None, settings.query_prefix):
            warnings.warn(
                f"encoder.query_prefix is {settings.query_prefix!r}, but published weights of {settings.name} were "
                f"trained with {self._family.query_prefix!r}",
                stacklevel=2,
            )
        self._identity = self._make_identity()
        self._check_limits()
        if settings.self_check:
            self._check_batches()

    @property
    def identity(self) -> EncoderIdentity:
        """See :class:`PageEncoder`."""
        return self._identity

    # --- fitted state ---------------------------------------------------------------------

    def fit(self, pages: Iterable[PageInput]) -> None:
        """Learn the projection, where there is one, from all patches of up to 128 pages spread over the corpus."""
        if not self.settings.pca_dim:
            return
        given = pages if isinstance(pages, Sequence) else list(pages)
        step = max(1, -(-len(given) // _SAMPLE_PAGES))
        rows = []
        for first in range(0, len(given), step * self.settings.batch_size):
            batch = [self.load_page(page) for page in given[first : first + step * self.settings.batch_size : step]]
            rows.extend(self._patch_rows(batch))
        self._projection = Projection.fit(np.concatenate(rows), self.settings.pca_dim)

    def save(self, folder: Path) -> None:
        """Write the projection, where there is one."""
        if self._projection is not None:
            self._projection.save(folder)

    def load(self, folder: Path) -> None:
        """Read what :meth:`save` wrote; raises NotBuiltError or InputError."""
        if self.settings.pca_dim:
            self._projection = Projection.load(folder, shape=(int(self._model.dim), self.settings.pca_dim))

    # --- encoding -------------------------------------------------------------------------

    def load_page(self, page: PageInput) -> ProcessedPage:
        """See :class:`BatchedPageEncoder`."""
        from PIL import Image

        with Image.open(page.image) as image:
            return self._process(page.page.page_id, image.convert("RGB"))

    def page_size(self, ready: ProcessedPage) -> int:
        """See :class:`BatchedPageEncoder`."""
        return int(ready.given["input_ids"].shape[1])

    def encode_batch(self, ready: Sequence[ProcessedPage]) -> list[PageVectors]:
        """See :class:`BatchedPageEncoder`; pages are pooled side by side in threads."""
        # Ward's method leaves the interpreter free for most of its time.
        with ThreadPoolExecutor(max_workers=self.settings.loaders) as threads:
            return list(threads.map(self._pool, ready, self._patch_rows(ready)))

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """See :class:`PageEncoder`; queries are encoded one by one, so nothing is padded."""
        rows = self._embed(self._processor.process_texts([self._prompt(text)]))[0]
        return self._projected(unit_rows(rows))

    def query_words(self, text: str) -> tuple[str, ...]:
        """The tokens of the query as the model gets them, prefix and augmentation tokens among them."""
        ids = self._processor.process_texts([self._prompt(text)])["input_ids"][0]
        return tuple(self._processor.tokenizer.decode([token]).strip() for token in ids.tolist())

    def _prompt(self, text: str) -> str:
        augmented: str = self._processor.query_augmentation_token * self.settings.augmentation_tokens
        return self.settings.query_prefix + text + augmented

    def _process(self, page_id: str, image: Any) -> ProcessedPage:
        """Cut an image into patches; several threads may do so at once, each with a processor of its own."""
        try:
            processor = self._spare.get_nowait()
        except Empty:
            processor = copy.deepcopy(self._processor)
        given = dict(processor.process_images([image]))
        self._spare.put(processor)
        boxes = self._family.boxes(processor, self._model, given)
        patches = int(self._is_patch(given).sum())
        if patches != len(boxes):
            raise MedvragError(
                f"page {page_id}: {patches} image tokens, but {len(boxes)} places on the page",
                way_out="use the release of colpali-engine that this project names",
            )
        return ProcessedPage(page_id, given, boxes)

    def _patch_rows(self, ready: Sequence[ProcessedPage]) -> list[NDArray[np.float32]]:
        """Unit rows of the image tokens of each page."""
        given = collate([page.given for page in ready], self._processor.tokenizer)
        rows, is_patch = self._embed(given), self._is_patch(given)
        return [unit_rows(page[patches]) for page, patches in zip(rows, is_patch, strict=True)]

    def _is_patch(self, given: dict[str, Any]) -> NDArray[np.bool_]:
        image_token = self._processor.tokenizer.convert_tokens_to_ids(self._processor.image_token)
        mask: NDArray[np.bool_] = (given["input_ids"] == image_token).numpy()
        return mask

    def _pool(self, page: ProcessedPage, rows: NDArray[np.float32]) -> PageVectors:
        pooled = pool_by_factor(rows, self.settings.pool_factor)
        return PageVectors(page.page_id, self._projected(pooled.vectors), page.boxes, pooled.vector_of)

    def _projected(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        if not self.settings.pca_dim:
            return rows
        if self._projection is None:
            raise NotBuiltError("the projection of encoder.pca_dim is not fitted", way_out="run notebook 02_indexing")
        return self._projection(rows)

    def _embed(self, given: Any) -> NDArray[np.float32]:
        """Token vectors of a batch, float32, shape (batch, tokens, width); zeros for padding."""
        import torch

        moved = {name: tensor.to(self._model.device) for name, tensor in given.items()}
        with torch.inference_mode():
            rows = self._model(**moved)
        vectors: NDArray[np.float32] = rows.float().cpu().numpy()
        if not np.isfinite(vectors).all():
            raise MedvragError(f"'{self.settings.model}' gave vectors that are not finite", way_out="check its weights")
        return vectors

    # --- what is checked at the start -----------------------------------------------------

    def _make_identity(self) -> EncoderIdentity:
        settings, found = self.settings, self._checkpoint
        sizes = {name: size for name, size in dict(self._processor.image_processor.size).items() if size}
        more: dict[str, bool | int | float | str] = {"processor_files": weights_digest(found.processor_files)}
        if found.base:
            more |= {"base": found.base.name, "base_revision": found.base.revision}
        return EncoderIdentity(
            encoder=settings.name,
            version=VERSION,
            model=settings.model,
            revision=found.revision,
            weights=weights_digest(found.all_weights),
            processor={"max_visual_tokens": settings.max_visual_tokens, **sizes},
            query_prefix=settings.query_prefix,
            augmentation_tokens=settings.augmentation_tokens,
            pooling=f"ward, {settings.pool_factor} patches a vector" if settings.pool_factor > 1 else "none",
            projection=f"pca to {settings.pca_dim}, fitted on the corpus" if settings.pca_dim else "none",
            dtype=str(self._model.dtype).removeprefix("torch."),
            dim=self.dim,
            more=more,
        )

    def _check_limits(self) -> None:
        """That a large page really stays under the cap, and that a query ends in as many tokens as the settings say."""
        from PIL import Image

        asked = self.settings.max_visual_tokens
        made = len(self._process("a blank page", Image.new("RGB", (1240, 1754), "white")).boxes)
        if made > asked:
            raise SettingsError(
                f"encoder.max_visual_tokens is {asked}, but '{self.settings.model}' makes {made} of a page",
                way_out=f"set it to {made} or more; not every family can be capped",
            )
        bare = self._processor.process_texts([self.settings.query_prefix + "gout"])["input_ids"].shape[1]
        added = len(self.query_words("gout")) - bare
        if added != self.settings.augmentation_tokens:
            raise MedvragError(
                f"'{self.settings.model}' adds {added} tokens to a query, not the {self.settings.augmentation_tokens} "
                "of encoder.augmentation_tokens",
                way_out="use the tokenizer that the weights were trained with",
            )

    def _check_batches(self) -> None:
        """That a page gets the same rows alone and beside a larger one (padding must not count)."""
        from PIL import Image

        small = self._process("a small page", Image.linear_gradient("L").resize((112, 84)).convert("RGB"))
        large = self._process("a larger page", Image.radial_gradient("L").resize((168, 224)).convert("RGB"))
        (alone,), (beside, _) = self._patch_rows([small]), self._patch_rows([small, large])
        turned = float(np.linalg.norm(alone - beside, axis=1).max())
        if turned > _LARGEST_TURN[self.identity.dtype]:
            raise MedvragError(
                f"'{self.settings.model}' gives a page other vectors in a batch than alone ({turned:.3f} apart)",
                way_out="set encoder.batch_size to 1 and encoder.self_check to false, and report it",
            )


def collate(pages: Sequence[dict[str, Any]], tokenizer: Any) -> dict[str, Any]:
    """Pages processed one by one, padded to one batch as the processor itself would.

    Parameters
    ----------
    pages : tensors by name, the first dimension 1; those with a value a token are padded on the tokenizer's side, all
        others (patches, tiles) behind
    """
    import torch

    batch = {}
    for name, first in pages[0].items():
        parts = [page[name][0] for page in pages]
        if first.shape == pages[0]["input_ids"].shape:
            fill = tokenizer.pad_token_id if name == "input_ids" else 0
            batch[name] = torch.nn.utils.rnn.pad_sequence(
                parts, batch_first=True, padding_value=fill, padding_side=tokenizer.padding_side
            )
        else:
            batch[name] = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
    return batch


def _open_processor(processor_class: Any, folder: Path, max_visual_tokens: int) -> Any:
    try:
        return processor_class.from_pretrained(folder, max_num_visual_tokens=max_visual_tokens, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise SettingsError(
            f"encoder.model: {folder} holds no processor of {processor_class.__name__} ({error})",
            way_out="give weights with their tokenizer and image processor",
        ) from None
