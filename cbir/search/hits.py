"""Hits of a search as a sequence: in loops, as a table of pandas, as pictures in a notebook."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self, overload

from pydantic import PrivateAttr

from cbir.errors import InvalidInput
from cbir.search.hit_cards import render_cards, style_element
from cbir.search.search_models import Answer, Hit
from cbir.system.remedies import install_command

if TYPE_CHECKING:
    from pandas import DataFrame

ReadPicture = Callable[[str], bytes | None]
MOST_CARDS = 60  # in a notebook, which keeps their pictures
COLUMNS = ("rank", "image_id", "score", "distance", "source", "patient")
GROUP_COLUMNS = ("group", "more")  # of a search with groups, after the others


class Hits(Answer):
    """Answer to a search: a sequence of `Hit`, best first.

    `len(hits)`, `hits[0]` and `for hit in hits` read `results`; `query`, `rerank` and `timings_ms` are about the
    search.
    """

    _read_picture: ReadPicture | None = PrivateAttr(default=None)

    @classmethod
    def from_answer(cls, answer: Answer, read_picture: ReadPicture) -> Self:
        """Return the hits of an answer; `read_picture` returns the JPEG of an image id, or None."""
        return cls(**{name: getattr(answer, name) for name in Answer.model_fields}).with_pictures(
            read_picture
        )

    def with_pictures(self, read_picture: ReadPicture) -> Self:
        """Set the function that returns the JPEG of an image id, or None; return the hits."""
        self._read_picture = read_picture
        return self

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Hit]:  # type: ignore[override]  # pydantic iterates over the fields
        return iter(self.results)

    @overload
    def __getitem__(self, index: int) -> Hit: ...

    @overload
    def __getitem__(self, index: slice) -> list[Hit]: ...

    def __getitem__(self, index: int | slice) -> Hit | list[Hit]:
        return self.results[index]

    def __repr__(self) -> str:
        rows = [
            f"  {hit.rank:3} {hit.image_id} {hit.score:.4f} {_label_text(hit)}".rstrip() for hit in self[:20]
        ]
        rows += ["  ..."] if len(self) > 20 else []
        return "\n".join([f"<{len(self)} hits by {self.rerank.method}>", *rows])

    __str__ = __repr__

    def to_pandas(self) -> "DataFrame":
        """Return a row for each hit: its facts, with the patient key, and a column for each label.

        A search with groups has the columns `group` and `more`, the number of further images of the group. A label
        with the name of another column becomes `label:NAME`. Raises InvalidInput without pandas.
        """
        try:
            from pandas import DataFrame
        except ModuleNotFoundError as error:
            raise InvalidInput(f"to_pandas needs pandas: {install_command('pandas')}") from error
        keys = dict.fromkeys(key for hit in self for key in hit.labels)
        columns = (*COLUMNS, *GROUP_COLUMNS) if self.grouping else COLUMNS
        rows = [
            {column: getattr(hit, column) for column in COLUMNS}
            | ({"group": hit.group.key, "more": hit.group.more} if hit.group else {})
            | {(f"label:{key}" if key in columns else key): hit.labels.get(key) for key in keys}
            for hit in self
        ]
        return DataFrame(rows, columns=None if rows else list(columns))

    def picture(self, hit: Hit) -> bytes | None:
        """Return the JPEG of a hit, at most 256 pixels wide and high; None where there is none."""
        try:
            return self._read_picture(hit.image_id) if self._read_picture else None
        except Exception:  # deleted, unreachable or closed meanwhile: hits are shown without pictures then
            return None

    def __getstate__(self) -> dict[Any, Any]:
        """Return the state to pickle or copy, without the open collection that pictures come from."""
        return super().__getstate__() | {"__pydantic_private__": {"_read_picture": None}}

    def _repr_html_(self) -> str:
        more = f"<p>and {len(self) - MOST_CARDS} more</p>" if len(self) > MOST_CARDS else ""
        return f"{style_element()}{render_cards(self[:MOST_CARDS], self.picture)}{more}"


def _label_text(hit: Hit) -> str:
    return " ".join(f"{key}={value}" for key, value in hit.labels.items())
