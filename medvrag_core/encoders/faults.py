"""A fault while pages are encoded names the page."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from medvrag_core.encoders.base import PageInput
from medvrag_core.encoders.shards import unfit
from medvrag_core.errors import MedvragError, MismatchError
from medvrag_core.records import PageVectors


def page_fault(ids: Sequence[str], error: Exception, *, way_out: str = "") -> MedvragError:
    """The fault with the pages it came up in, unless it names them itself."""
    if isinstance(error, MedvragError) and any(page_id in str(error) for page_id in ids):
        return error
    told = "page" if len(ids) == 1 else "pages"
    return MedvragError(f"{told} {', '.join(ids)}: {type(error).__name__}: {error}", way_out=way_out)


def naming_pages(stream: Iterator[PageVectors], pages: Sequence[PageInput]) -> Generator[PageVectors, None, None]:
    """What an encoder yields for ``pages``; an error that is no :class:`MedvragError` gets the page it came up in."""
    for place in range(len(pages)):
        try:
            page = next(stream)
        except StopIteration:
            raise MedvragError(f"the encoder gave vectors for {place} of {len(pages)} pages") from None
        except MedvragError:
            raise
        except Exception as error:
            raise page_fault([pages[place].page.page_id], error) from error
        yield page


def fitting_pages(stream: Iterator[PageVectors], dim: int) -> Generator[PageVectors, None, None]:
    """The same pages; raises MismatchError for vectors that no index of width ``dim`` can hold."""
    for page in stream:
        if fault := unfit(page, dim):
            raise MismatchError(
                f"page {page.page_id}: {fault}, as the encoder made it",
                way_out="check its weights, or set encoder.batch_size to 1",
            )
        yield page
