"""What the process of a job reports after an error: whether another attempt may succeed."""

import pytest

from cbir.errors import CollectionBusy, DatabaseUnavailable, InvalidInput
from indexer.index_job import JobEnd, end_of


@pytest.mark.parametrize("error", [CollectionBusy("in use"), DatabaseUnavailable("is down")])
def test_a_collection_that_cannot_be_written_for_now_is_tried_again(error: Exception) -> None:
    assert end_of(error) == JobEnd(error=str(error), busy=True)


@pytest.mark.parametrize("error", [InvalidInput("no column path"), ValueError("no column path")])
def test_another_error_ends_the_job(error: Exception) -> None:
    end = end_of(error)
    assert not end.busy
    assert "no column path" in (end.error or "")
