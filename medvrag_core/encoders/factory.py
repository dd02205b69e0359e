"""From settings to encoders; heavy packages are imported only by the encoder that needs them."""

from __future__ import annotations

from medvrag_core.encoders.base import PageEncoder
from medvrag_core.encoders.families import FAMILIES
from medvrag_core.encoders.text import TextEncoder
from medvrag_core.settings import EncoderSettings, TextSettings


def make_page_encoder(settings: EncoderSettings) -> PageEncoder:
    """The page encoder that a profile names."""
    if settings.name in FAMILIES:
        from medvrag_core.encoders.colpali import LateInteractionEncoder

        return LateInteractionEncoder(settings)
    if settings.name == "visrag-ret":
        from medvrag_core.encoders.visrag_ret import VisRagRetEncoder

        return VisRagRetEncoder(settings)
    if settings.name == "dse":
        from medvrag_core.encoders.dse import DseEncoder

        return DseEncoder(settings)
    from medvrag_core.encoders.embedded import EmbeddedEncoder

    return EmbeddedEncoder(settings)


def make_text_encoder(settings: TextSettings) -> TextEncoder:
    """The passage encoder of the dense text arms; opens no weights yet."""
    if settings.encoder == "embedded":
        from medvrag_core.encoders.minilm import MiniLmTextEncoder

        return MiniLmTextEncoder()
    from medvrag_core.encoders.transformer import TransformerTextEncoder

    return TransformerTextEncoder(settings)
