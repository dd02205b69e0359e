"""A page image on its way to readers: whose it is, and whether a published book may show it.

Every view that shows a page asks here. Notebooks that a person runs show all pages of their own corpus; chapters that
are run for the book (``MEDVRAG_AUDIENCE=public``, set by `medvrag book run`) show those whose licence allows it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from medvrag_core.corpus.licences import credit_line, parsed_licence, why_hidden
from medvrag_core.records import Article

AUDIENCE = "MEDVRAG_AUDIENCE"
"""Environment variable that tells whom pages are shown to."""
PUBLIC = "public"


@dataclass(frozen=True)
class PagePicture:
    """The image of a page with what its licence says.

    Attributes
    ----------
    page_id : empty for an image that belongs to no known page
    path : of the image
    credit : the line to print under it
    restricted : why a published book may not show it; empty where it may
    """

    page_id: str
    path: Path
    credit: str
    restricted: str

    @property
    def hidden(self) -> str:
        """Why it is not shown now; empty where it is."""
        return self.restricted if os.environ.get(AUDIENCE) == PUBLIC else ""


def picture_of(article: Article, page_id: str, path: Path) -> PagePicture:
    """The picture of a page of an article."""
    return PagePicture(page_id, path, credit_line(article), why_hidden(parsed_licence(article.licence)))


def as_picture(image: Path | PagePicture) -> PagePicture:
    """A picture as it is; of a bare path nobody knows the licence, so a published book does not show it."""
    if isinstance(image, PagePicture):
        return image
    return PagePicture("", image, "", why_hidden(parsed_licence("")))
