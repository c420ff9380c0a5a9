"""Bound of the labels in one answer: each image's are bounded, and an answer may have a thousand images."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from cbir.search import Answer

MAX_ANSWER_LABELS = 4 * 2**20  # bytes of JSON
LEFT_OUT = "labels of {} results are left out, since an answer has at most {} MiB of labels"

Row = TypeVar("Row")


class Labelled(Protocol):
    """Image of an answer."""

    labels: dict[str, str]
    labels_left_out: bool


class LabelBudget:
    """Bytes of labels that an answer may still have."""

    def __init__(self) -> None:
        self._left = MAX_ANSWER_LABELS

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels fit; then they count."""
        size = len(json.dumps(labels, ensure_ascii=False).encode(errors="surrogatepass"))
        if size > self._left:
            return False
        self._left -= size
        return True

    def leave_out(self, images: Iterable[Labelled]) -> int:
        """Leave out the labels of those images that do not fit, in order, and return their number."""
        count = 0
        for image in images:
            if image.labels_left_out or not self.takes(image.labels):
                image.labels, image.labels_left_out = {}, True
                count += 1
        return count

    def bounded(self, answer: Answer) -> Answer:
        """Return the answer without the labels that do not fit, and with a note if there are any."""
        if count := self.leave_out(answer.results):
            note = LEFT_OUT.format(count, MAX_ANSWER_LABELS // 2**20)
            answer.rerank = answer.rerank.model_copy(update={"notes": (*answer.rerank.notes, note)})
        return answer


def page_that_fits(rows: Sequence[Row], labels_of: Callable[[Row], Mapping[str, str]]) -> list[Row]:
    """Return the first rows of a page whose labels fit into an answer, at least one; the next page has the others."""
    budget = LabelBudget()
    count = next((n for n, row in enumerate(rows) if not budget.takes(labels_of(row))), len(rows))
    return list(rows[: max(count, 1)])
