"""A page with its regions drawn over it."""

from __future__ import annotations

from pathlib import Path

from medvrag_core.corpus.showing import PagePicture, as_picture
from medvrag_core.records import PageLayout, Region
from medvrag_core.views.markup import HtmlBlock, escape
from medvrag_core.views.pages import alt_text, credit_html, image_size, page_thumbnail
from medvrag_core.views.theme import BLUE, GRAY, GREEN, ORANGE, PURPLE, SKY, VERMILION

COLORS = {
    "heading": VERMILION,
    "text": BLUE,
    "caption": PURPLE,
    "table": ORANGE,
    "table_row": ORANGE,
    "figure": GREEN,
    "margin": GRAY,
}


def page_layout_view(image: Path | PagePicture, layout: PageLayout, *, width: int = 640) -> HtmlBlock:
    """The page image with one outlined box a region; pointing at a box shows its role and first words.

    Raises InputError if the image is missing or unusable.
    """
    uri = page_thumbnail(image, width=width, max_kb=150)
    pixels_wide, pixels_high = image_size(image)
    height = width * pixels_high / pixels_wide
    # Words of a page that may not be shown are not shown either.
    hidden = as_picture(image).hidden

    def told(region: Region) -> str:
        return "" if hidden else f": {escape(region.text[:80])}"

    boxes = "".join(
        f'<rect x="{r.box[0] * width:.1f}" y="{r.box[1] * height:.1f}" '
        f'width="{max(0.0, r.box[2] - r.box[0]) * width:.1f}" height="{max(0.0, r.box[3] - r.box[1]) * height:.1f}" '
        f'fill="{COLORS.get(r.kind, SKY)}" fill-opacity="0.10" stroke="{COLORS.get(r.kind, SKY)}" stroke-width="1.2">'
        f"<title>{escape(r.kind)}{told(r)}</title></rect>"
        for r in layout.regions
    )
    alt = alt_text(image, f"Page {layout.page_id} with {len(layout.regions)} regions")
    kinds = sorted({r.kind for r in layout.regions})
    legend = " ".join(
        f'<span style="white-space:nowrap"><span style="color:{COLORS.get(kind, SKY)}">&#9632;</span> '
        f"{escape(kind.replace('_', ' '))}</span>"
        for kind in kinds
    )
    return HtmlBlock(
        f'<figure class="medvrag-layout" style="margin:1em 0;max-width:{width}px">'
        f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{alt}" '
        f'style="display:block;width:100%;height:auto;border:1px solid #8884">'
        f'<image href="{uri}" width="{width}" height="{height:.0f}" preserveAspectRatio="none"/>{boxes}</svg>'
        f'<figcaption style="font-size:.85em">{escape(layout.page_id)}: {len(layout.words)} words, '
        f"{len(layout.regions)} regions. {legend}"
        f"{credit_html(image)}</figcaption></figure>"
    )
