"""DSE, document screenshot embedding: the state of the last token of a Qwen2-VL, such as MrLight/dse-qwen2-2b-mrl-v1.

Prompt, placeholder image and cut follow the model card. **Not run on the published weights**, and not on a GPU: tests
use a tiny Qwen2-VL of random weights.

- The card opens the assistant's turn before the closing token; the training script of its authors (texttron/tevatron,
  ``examples/dse/qwen``) does not. The card is followed, since it is what the published weights are offered with.
- A query carries a black image: the card asks for 28 x 28 pixels, which its image loader enlarges to 56 x 56.
- The card resizes a page twice (to whole patches, then under the cap); here it is resized once, with Pillow's bicubic
  filter.
- Batches are padded on the right and the last real token is read. No real token sees that padding, so it gives what
  the card's padding on the left gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.checkpoints import find_checkpoint, load_model
from medvrag_core.encoders.extra import gpu_packages
from medvrag_core.encoders.identity import EncoderIdentity, weights_digest
from medvrag_core.encoders.single_vector import ReadyPage, SingleVectorEncoder, cut_width, without_tokens
from medvrag_core.errors import SettingsError
from medvrag_core.settings import EncoderSettings

if TYPE_CHECKING:
    from PIL.Image import Image

VERSION = 1
PROMPT = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>{text}<|im_end|>\n"
    "<|im_start|>assistant\n<|endoftext|>"
)
"""Qwen2-VL's chat format; written out, so that no template that comes with weights is run."""
PAGE_TEXT = "What is shown in this image?"
SQUARE = 28
"""Pixels along one visual token."""


class DseEncoder(SingleVectorEncoder[ReadyPage]):
    """Page images and queries to one vector each, cut to ``settings.nested_dim`` numbers (nested training, "MRL").

    Raises
    ------
    MedvragError : a package is missing, or a page gets another vector in a batch than alone
    InputError : the weights are not those of a Qwen2-VL, not whole, or no safetensors
    SettingsError : weights or device are not there, or ``encoder.nested_dim`` is larger than the vector
    """

    def __init__(self, settings: EncoderSettings) -> None:
        super().__init__(settings)
        with gpu_packages("encoder 'dse'"):
            from transformers import Qwen2VLForConditionalGeneration, Qwen2VLProcessor
        found = find_checkpoint(settings.model, settings.revision)
        limits = {"shortest_edge": SQUARE**2, "longest_edge": settings.max_visual_tokens * SQUARE**2}
        try:
            self._processor: Any = Qwen2VLProcessor.from_pretrained(found.folder, trust_remote_code=False)
        except (OSError, ValueError, KeyError) as error:
            raise SettingsError(
                f"encoder.model: {found.folder} holds no processor of a Qwen2-VL ({error})",
                way_out="give weights with their tokenizer and image processor",
            ) from None
        self._processor.image_processor.size = limits
        self._processor.tokenizer.padding_side = "right"
        self._special = list(self._processor.tokenizer.get_added_vocab())
        self._model: Any = load_model(Qwen2VLForConditionalGeneration, found, device=settings.device).model
        self.dim = cut_width(
            settings.nested_dim, self._model.config.text_config.hidden_size, settings.model, nested=True
        )
        self.made_by = EncoderIdentity(
            encoder="dse",
            version=VERSION,
            model=settings.model,
            revision=found.revision,
            weights=weights_digest(found.all_weights),
            processor={"max_visual_tokens": settings.max_visual_tokens},
            query_prefix=settings.query_prefix,
            pooling="last token",
            dtype=str(self._model.dtype).removeprefix("torch."),
            dim=self.dim,
            more={"processor_files": weights_digest(found.processor_files)},
        )
        if settings.self_check:
            self.check_batches()

    def prepare(self, page_id: str, image: Image) -> ReadyPage:
        """See :class:`SingleVectorEncoder`."""
        from PIL.Image import Resampling
        from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

        most = self.settings.max_visual_tokens * SQUARE**2
        height, width = smart_resize(image.height, image.width, SQUARE, min_pixels=SQUARE**2, max_pixels=most)
        resized = np.array(image.resize((width, height), Resampling.BICUBIC))  # torch wants it writable
        return ReadyPage(page_id, (resized,), height * width // SQUARE**2)

    def embed_pages(self, ready: Sequence[ReadyPage]) -> NDArray[np.float32]:
        """See :class:`SingleVectorEncoder`."""
        return self._embed([PAGE_TEXT] * len(ready), [page.images[0] for page in ready])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """See :class:`SingleVectorEncoder`."""
        plain = self.settings.query_prefix + without_tokens(text, self._special)
        vector: NDArray[np.float32] = self._embed([plain], [np.zeros((2 * SQUARE, 2 * SQUARE, 3), dtype=np.uint8)])[0]
        return vector

    def _embed(self, texts: Sequence[str], images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """States of the last tokens, float32, shape (texts, width)."""
        import torch

        given = self._processor(
            text=[PROMPT.format(text=text) for text in texts], images=list(images), padding=True, return_tensors="pt"
        ).to(self._model.device)
        with torch.inference_mode():
            hidden = self._model(**given).last_hidden_state
        last = given["attention_mask"].sum(1) - 1
        vectors: NDArray[np.float32] = hidden[torch.arange(len(last), device=last.device), last].float().cpu().numpy()
        return vectors
