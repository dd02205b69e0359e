"""Typesetter of the demo corpus: Markdown articles to two-column journal pages, anchors to page numbers."""
