"""Lists of an archive, page by page; a page that fails is halved until the one result that fails is found."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from indexer.dicomweb.archive_items import ItemRefused
from indexer.dicomweb.repeated_requests import TRIES, RepeatedRequests

PAGE = 100  # results of one query
MOST_GAPS = 100  # in a row: then the rest of the list is given up

QidoResult = dict[str, dict[str, Any]]
Gap = tuple[int, str]  # place in the list, from 1, and why it was not answered


def all_pages(
    repeated: RepeatedRequests, search: Callable[..., list[QidoResult]], gaps: list[Gap]
) -> Iterator[list[QidoResult]]:
    """Yield pages of results until the caller stops, or a page is empty.

    Parameters
    ----------
    repeated : RepeatedRequests
        Makes the requests.
    search : callable
        Queries the archive, with `limit` and `offset`.
    gaps : list
        Gets the places of results that the archive cannot list.

    Raises
    ------
    ItemRefused
        If the archive refuses the whole list, or 100 results in a row.
    """
    offset, size, in_a_row, is_split = 0, PAGE, 0, False
    while True:
        tries = TRIES if not is_split else 2 if size == 1 else 1
        try:
            results = repeated(partial(search, limit=size, offset=offset), tries)
        except ItemRefused as refused:
            if refused.is_missing and offset:  # some archives have no page after the last
                return
            if not refused.may_be_split or in_a_row == MOST_GAPS:
                raise
            is_split = True
            if size > 1:
                size //= 2
                continue
            in_a_row += 1
            offset += 1
            gaps.append((offset, str(refused)))
            continue
        if not results:
            return
        yield results
        offset, size, in_a_row = offset + len(results), min(2 * size, PAGE), 0


def first_value(result: QidoResult, tag: str) -> str:
    """Return the first value of an attribute in the DICOM JSON model (PS3.18, F.2); "" if there is none."""
    try:
        return str(result[tag]["Value"][0]).strip()
    except (KeyError, IndexError, TypeError):
        return ""
