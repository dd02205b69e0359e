"""VisRAG-Ret, the retriever of VisRAG: one vector a page, by position-weighted mean pooling (VisRAG, section 3.2.1).

Architecture and weights are in :mod:`.minicpm_v`; no code that comes with the checkpoint is run. **Not run on the
published weights**, and not on a GPU: tests use random weights under the names of the checkpoint, and hold numbers that
the released code gives on them. Tokens come from the checkpoint's ``tokenizer.json``, where the released code has the
slow SentencePiece tokenizer; that both split the line breaks between slices alike could not be checked without them.

The repository of VisRAG spells the query's instruction in two ways. The default of the profile, "Represent this query
for retrieving relevant documents: ", is the one of the training data (``train_dataset.py``), the evaluation script, the
README and the retriever demo, so it is what the weights have learned; "document" stands in the pipeline demo alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from medvrag_core.encoders.checkpoints import find_checkpoint
from medvrag_core.encoders.extra import gpu_packages
from medvrag_core.encoders.identity import EncoderIdentity, weights_digest
from medvrag_core.encoders.minicpm_v import MiniCpmV, MiniCpmVConfig, TokenRow
from medvrag_core.encoders.page_slices import Slicing, cut, plan_slices
from medvrag_core.encoders.single_vector import ReadyPage, SingleVectorEncoder, cut_width, without_tokens
from medvrag_core.errors import InputError, MismatchError, SettingsError
from medvrag_core.settings import EncoderSettings

if TYPE_CHECKING:
    from PIL.Image import Image

VERSION = 1
MOST_TOKENS = 2048
"""Longer inputs are cut, as the released code does; a page has fewer."""


@dataclass(frozen=True)
class SlicedPage(ReadyPage):
    """The overview and the cells of a page, with the token ids that stand for them."""

    ids: tuple[int, ...]


class VisRagRetEncoder(SingleVectorEncoder[SlicedPage]):
    """Page images and queries to one vector each, ``hidden_size`` wide (2304 in the published weights).

    Raises
    ------
    MedvragError : a package is missing, or a page gets another vector in a batch than alone
    InputError : the checkpoint holds no safetensors, or lacks another file
    MismatchError : it is of another architecture
    SettingsError : it or the device cannot be had, or ``encoder.nested_dim`` is set
    """

    def __init__(self, settings: EncoderSettings) -> None:
        super().__init__(settings)
        with gpu_packages("encoder 'visrag-ret'"):
            import torch
            import transformers  # noqa: F401
            from safetensors.torch import load_file  # type: ignore[import-not-found]
            from tokenizers import Tokenizer
        found = find_checkpoint(settings.model, settings.revision)
        self.config = read_config(found.folder / "config.json")
        self.dim = cut_width(settings.nested_dim, self.config.hidden_size, settings.model, nested=False)
        self._tokenizer = Tokenizer.from_file(str(present(found.folder / "tokenizer.json")))
        self._tokenizer.no_truncation()
        self._special = [token.content for token in self._tokenizer.get_added_tokens_decoder().values()]
        weights = {name: tensor for file in found.weights for name, tensor in load_file(file).items()}
        dtype = torch.bfloat16 if settings.device.startswith("cuda") else torch.float32
        try:
            self._model = MiniCpmV(self.config, weights, device=settings.device, dtype=dtype)
        except (AssertionError, RuntimeError) as error:
            raise SettingsError(
                f"encoder.device: '{settings.device}' cannot be used ({error})", way_out="set it to cpu"
            ) from None
        self.made_by = EncoderIdentity(
            encoder="visrag-ret",
            version=VERSION,
            model=settings.model,
            revision=found.revision,
            weights=weights_digest(found.weights),
            processor={"max_slice_nums": self.config.max_slice_nums, "scale_resolution": self.config.scale_resolution},
            query_prefix=settings.query_prefix,
            pooling="position-weighted mean",
            dtype=str(dtype).removeprefix("torch."),
            dim=self.dim,
            more={"processor_files": weights_digest(found.processor_files)},
        )
        if settings.self_check:
            self.check_batches()

    def prepare(self, page_id: str, image: Image) -> SlicedPage:
        """See :class:`SingleVectorEncoder`."""
        slicing = plan_slices(
            *image.size,
            scale=self.config.scale_resolution,
            patch=self.config.patch_size,
            at_most=self.config.max_slice_nums,
        )
        slices = tuple(np.asarray(one) for one in cut(image, slicing))
        ids = self._page_ids(slicing)
        return SlicedPage(page_id, slices, len(ids), tuple(ids))

    def embed_pages(self, ready: Sequence[SlicedPage]) -> NDArray[np.float32]:
        """See :class:`SingleVectorEncoder`."""
        import torch

        with torch.inference_mode():
            return self._pooled([self._row(page) for page in ready])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """See :class:`SingleVectorEncoder`; the instruction of ``settings.query_prefix`` stands before the query."""
        import torch

        with torch.inference_mode():
            ids = self._ids(self.settings.query_prefix + without_tokens(text, self._special))
            vector: NDArray[np.float32] = self._pooled([TokenRow(ids)])[0]
        return vector

    def _row(self, page: SlicedPage) -> TokenRow:
        import torch

        tokens = []
        for _, slices in groupby(page.images, key=lambda one: one.shape):
            pixels = torch.from_numpy(np.stack(list(slices))).to(self.settings.device).permute(0, 3, 1, 2)
            tokens.append(self._model.image_tokens(pixels.float() / 127.5 - 1.0).flatten(0, 1))
        return TokenRow(page.ids, self._slots(page.ids), torch.cat(tokens))

    def _pooled(self, rows: Sequence[TokenRow]) -> NDArray[np.float32]:
        hidden = self._model.last_hidden(rows)
        pooled: NDArray[np.float32] = position_weighted_mean(hidden, [len(row.ids) for row in rows]).cpu().numpy()
        return pooled

    def _page_ids(self, slicing: Slicing) -> list[int]:
        """Token ids of a page: a start, one placeholder a slice, and a line break before a text that is empty."""
        ids = self._ids(page_text(slicing, self.config.query_num))
        columns, rows = slicing.grid or (0, 0)
        wanted = (1 + columns * rows) * self.config.query_num
        if len(self._slots(ids)) != wanted:
            raise MismatchError(
                f"tokenizer.json of '{self.settings.model}' splits the placeholder of an image",
                way_out="name a checkpoint of VisRAG-Ret",
            )
        return ids

    def _slots(self, ids: Sequence[int]) -> list[int]:
        return image_slots(ids, self._id("<image>"), self._id("</image>"))

    def _ids(self, text: str) -> list[int]:
        ids = [self._id("<s>"), *self._tokenizer.encode(text, add_special_tokens=False).ids]
        return ids[:MOST_TOKENS]

    def _id(self, token: str) -> int:
        number: int | None = self._tokenizer.token_to_id(token)
        if number is None:
            raise MismatchError(
                f"tokenizer.json of '{self.settings.model}' has no token {token}",
                way_out="name a checkpoint of VisRAG-Ret",
            )
        return number


def page_text(slicing: Slicing, query_num: int) -> str:
    r"""What stands for a page before its slices are put in: the overview, then the cells row by row.

    >>> page_text(Slicing((14, 14), (2, 1), (14, 14)), 1)
    '<image><unk></image><slice><image><unk></image><image><unk></image></slice>\n'
    """
    one = f"<image>{'<unk>' * query_num}</image>"
    if slicing.grid is None:
        return f"{one}\n"
    columns, rows = slicing.grid
    cells = "\n".join([one * columns] * rows)
    return f"{one}<slice>{cells}</slice>\n"


def image_slots(ids: Sequence[int], start: int, end: int) -> list[int]:
    """Places between each ``start`` and its ``end``.

    >>> image_slots([0, 7, 1, 1, 8, 0, 7, 1, 1, 8], start=7, end=8)
    [2, 3, 7, 8]
    """
    starts = [place for place, token in enumerate(ids) if token == start]
    ends = [place for place, token in enumerate(ids) if token == end]
    return [place for first, last in zip(starts, ends, strict=True) for place in range(first + 1, last)]


def position_weighted_mean(hidden: Any, lengths: Sequence[int]) -> Any:
    """Mean of the first ``lengths`` states of each row, the i-th with weight i (VisRAG, equation 1), in float32.

    Parameters
    ----------
    hidden : tensor, shape (rows, longest, width), padded on the right
    lengths : number of real states of each row

    Returns
    -------
    float32 tensor, shape (rows, width), of any length
    """
    import torch

    places = torch.arange(1, hidden.shape[1] + 1, device=hidden.device)
    real = places <= torch.tensor(lengths, device=hidden.device)[:, None]
    weights = (places * real).float()
    return (hidden.float() * weights[..., None]).sum(1) / weights.sum(1, keepdim=True)


def read_config(path: Path) -> MiniCpmVConfig:
    """Sizes of a checkpoint; raises MismatchError for one of another architecture, naming the field."""
    given: Mapping[str, Any] = json.loads(present(path).read_text(encoding="utf-8"))
    try:
        return MiniCpmVConfig.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise MismatchError(
            f"{path}: '{'.'.join(map(str, first['loc']))}': {first['msg'].lower()}",
            way_out="name a checkpoint of VisRAG-Ret",
        ) from None


def present(file: Path) -> Path:
    """The file; raises InputError where a checkpoint lacks it."""
    if not file.is_file():
        raise InputError(f"{file}: is missing", way_out="fetch the whole checkpoint")
    return file
