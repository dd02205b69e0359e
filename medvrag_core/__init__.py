"""MedVRAG: iterative multimodal retrieval-augmented generation for medical question answering.

The package follows the flow of data. Each room may import the rooms above it in
this list, plus ``records``, ``settings``, ``errors`` and ``runs``, and never a room below it::

    corpus -> encoders -> index -> filter -> reasoning -> systems -> evaluation -> views

``models`` is the one door to language models; ``filter``, ``reasoning`` and ``systems`` use it.
"""

__version__ = "0.1.0"
