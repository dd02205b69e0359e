"""Paragraph styles of the demo journal (sizes in points)."""

from __future__ import annotations

from reportlab.lib.colors import HexColor
from reportlab.lib.enums import TA_JUSTIFY, TA_LEFT
from reportlab.lib.styles import ParagraphStyle

from typeset.fonts import SANS, SERIF, register

register()

_ACCENT = HexColor("#24506e")

BODY = ParagraphStyle(
    "body",
    fontName=SERIF,
    fontSize=9.2,
    leading=12.0,
    alignment=TA_JUSTIFY,
    spaceBefore=4.0,
    allowWidows=0,
    allowOrphans=0,
    spaceShrinkage=0.06,
    splitLongWords=0,
)
BULLET = ParagraphStyle("bullet", parent=BODY, alignment=TA_LEFT, leftIndent=10, bulletIndent=1, spaceBefore=2.5)
HEADINGS = {
    2: ParagraphStyle(
        "heading2", fontName=f"{SANS}-Bold", fontSize=10.8, leading=13.0, textColor=_ACCENT, spaceBefore=11.0
    ),
    3: ParagraphStyle("heading3", fontName=f"{SANS}-BoldItalic", fontSize=9.4, leading=11.5, spaceBefore=7.0),
}
CAPTION = ParagraphStyle("caption", fontName=SANS, fontSize=8.0, leading=9.8)
NOTE = ParagraphStyle("note", fontName=SANS, fontSize=7.0, leading=8.6, textColor=HexColor("#4a5661"))
FOOTNOTE = ParagraphStyle("footnote", fontName=SERIF, fontSize=7.4, leading=9.0)
REFERENCE = ParagraphStyle(
    "reference",
    fontName=SERIF,
    fontSize=7.8,
    leading=9.8,
    leftIndent=14,
    bulletIndent=0,
    bulletFontName=SERIF,
    bulletFontSize=7.8,
    spaceBefore=2.0,
)
KICKER = ParagraphStyle("kicker", fontName=f"{SANS}-Bold", fontSize=8.0, leading=10.0, textColor=_ACCENT)
TITLE = ParagraphStyle("title", fontName=f"{SANS}-Bold", fontSize=17.0, leading=20.0, spaceAfter=10.0)
ABSTRACT = ParagraphStyle(
    "abstract",
    parent=BODY,
    fontSize=9.0,
    leading=11.6,
    backColor=HexColor("#f1f5f9"),
    borderPadding=(4, 5, 5, 5),
    leftIndent=5,
    rightIndent=5,
    spaceAfter=9.0,
)
KEYWORDS = ParagraphStyle("keywords", fontName=SANS, fontSize=8.0, leading=10.5, leftIndent=5)
