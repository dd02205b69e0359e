"""What made a vector: compared field by field wherever a query meets stored pages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.records import Record
from medvrag_core.runs.publish import sha256_of
from medvrag_core.settings import differences, fingerprint


class EncoderIdentity(Record):
    """Everything that decides which vectors a page or a query gets, but for what was learned from the corpus.

    It is the same before and after an encoder is fitted or loaded; digests of the fitted state (such as a PCA) stand
    beside it in the manifest of the vectors. Device, batch size and storage are no part of it. What does not apply to
    an encoder keeps its default.

    Attributes
    ----------
    encoder : name of the implementation, as in the settings
    version : of the implementation; raised whenever its code would give other vectors
    model : hub id or name of the weights
    revision : commit of the weights
    weights : SHA-256 over all files of weights, see :func:`weights_digest`
    processor : limits of the image or text processor, such as ``max_visual_tokens``
    query_prefix : put before each query
    augmentation_tokens : tokens put behind each query
    pooling : how many patches become fewer vectors, such as ``ward at most 103``
    projection : how vectors are made narrower; the SHA-256 of a matrix that was given, or what is fitted on the corpus
    dtype : in which the model computes
    dim : width of one vector
    more : whatever else counts for this encoder, by name
    """

    encoder: str
    version: int
    model: str
    revision: str = ""
    weights: str = ""
    processor: dict[str, int] = Field(default_factory=dict)
    query_prefix: str = ""
    augmentation_tokens: int = 0
    pooling: str = ""
    projection: str = ""
    dtype: str = "float32"
    dim: int
    more: dict[str, bool | int | float | str] = Field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Short name that changes when any field changes.

        >>> EncoderIdentity(encoder="embedded", version=3, model="m", dim=128).fingerprint
        'embedded-3-3a079b62de1cf8af'
        """
        return f"{self.encoder}-{self.version}-{fingerprint(self)}"

    def differences(self, other: EncoderIdentity) -> list[str]:
        """Fields in which ``other`` is another encoder, each with both values; empty if it is the same.

        >>> made_by = EncoderIdentity(encoder="colqwen2.5", version=3, model="m", query_prefix="Query: ", dim=128)
        >>> made_by.differences(made_by.model_copy(update={"query_prefix": "", "processor": {"max_visual_tokens": 9}}))
        ['processor.max_visual_tokens: None -> 9', "query_prefix: 'Query: ' -> ''"]
        """
        return differences(_quoted(self), _quoted(other))


def weights_digest(files: Iterable[Path]) -> str:
    """SHA-256 over the names and digests of files of weights, whatever their order and folder.

    Raises InputError when there is no file.
    """
    lines = sorted(f"{file.name} {sha256_of(file)}" for file in files)
    if not lines:
        raise InputError("no file of weights to take a digest of")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _quoted(identity: EncoderIdentity) -> dict[str, object]:
    """The fields with texts in quotes, so that an empty one can be seen in a message."""

    def shown(value: object) -> object:
        if isinstance(value, dict):
            return {name: shown(part) for name, part in value.items()}
        return repr(value) if isinstance(value, str) else value

    return {name: shown(value) for name, value in identity.model_dump(mode="json").items()}
