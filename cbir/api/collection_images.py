"""Images of an open collection: records, vectors and pictures, and cohorts that rounds of judgements find."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput, NotFound
from cbir.images import Limits
from cbir.images.scaling import make_thumbnail
from cbir.learn.severity.stored_images import read_stored_image
from cbir.search import Searcher
from cbir.search.cohorts.cohort_round import BATCH, CohortRound, next_batch, start_round
from cbir.search.cohorts.export_formats import EXPORTS
from cbir.search.cohorts.missing_images import JudgedImage, MissingImages, ProposedImage
from cbir.search.query_parts import read_vectors
from cbir.settings import Settings
from cbir.store import Collection, Record
from cbir.store.base.profile import Profile
from cbir.store.collection_address import address_or_folder, collection_folder
from cbir.store.records.filter_conditions import Condition, LabelConditions, list_conditions
from cbir.store.records.image_counts import LabelKey, LabelValues


class CollectionVectors(NamedTuple):
    """Vectors of n images, in the order in which the images were added.

    image_ids: n ids. values: (n, d) float32.
    """

    image_ids: list[str]
    values: NDArray[np.float32]


class CollectionImages:
    """Images, vectors and pictures of a collection. Thread-safe; a context manager.

    Parameters
    ----------
    folder : str or path-like
        Folder of the collection, its alias, or its address in PostgreSQL.
    in_force : Settings
        Settings of the searches.
    """

    def __init__(self, folder: str | os.PathLike[str], in_force: Settings) -> None:
        self.collection = Collection(collection_folder(folder))
        self.settings = in_force.model_copy(update={"show_sources": True})
        self.limits = Limits.from_settings(in_force)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files of the collection."""
        self.collection.close()

    def __len__(self) -> int:
        return len(self.collection)

    def __bool__(self) -> bool:
        return True  # empty collections too

    def __repr__(self) -> str:
        return (
            f"<collection {address_or_folder(self.folder)}: {len(self)} images, profile {self.profile.name}>"
        )

    @property
    def folder(self) -> Path:
        """Folder of the collection; of one in PostgreSQL the folder of its files."""
        return self.collection.folder

    @property
    def profile(self) -> Profile:
        """Descriptor, weights and settings of the collection."""
        return self.collection.profile

    def vectors(self, where: LabelConditions = (), *, raw: bool = False) -> CollectionVectors:
        """Return the vectors of the images, as a copy in memory.

        Parameters
        ----------
        where : str, Condition or sequence of them
            Label conditions; all must hold.
        raw : bool
            Return the values of the descriptor; else the normalised values that searches compare.
        """
        conditions = self.collection.conditions(list_conditions(where))
        view = self.collection.view()
        rows = self.collection.select_rows(view, conditions)
        rows = np.arange(len(view.gallery)) if rows is None else rows
        ids = self.collection.image_ids()
        rows = rows[[number in ids for number in view.gallery.ids[rows].tolist()]]  # not deleted meanwhile
        numbers = view.gallery.ids[rows]
        values = self.collection.raw_vectors(numbers) if raw else view.gallery.vectors(rows)
        return CollectionVectors([ids[number] for number in numbers.tolist()], values)

    def vector(self, image_id: str, *, raw: bool = False) -> NDArray[np.float32]:
        """Return the vector (d,) float32 of an image: the values of the descriptor if `raw`, else normalised ones."""
        return np.asarray(read_vectors(self.collection, [image_id], raw=raw)[0])

    def labels(self, where: LabelConditions = ()) -> list[LabelKey]:
        """Return the label keys of the images that meet all conditions `where`, with counts of images and values."""
        return self.collection.list_label_keys(self.collection.conditions(list_conditions(where)))

    def label_values(
        self, key: str, where: LabelConditions = (), *, limit: int = 100, offset: int = 0
    ) -> LabelValues:
        """Return the most frequent values of a label with their numbers of images.

        Parameters
        ----------
        key : str
            Key of the label.
        where : str, Condition or sequence of them
            Label conditions on the images that count; all must hold.
        limit : int
            Largest number of values in `items`.
        offset : int
            Number of more frequent values to leave out.

        Raises
        ------
        InvalidInput
            If no image has the label.
        """
        conditions = self.collection.conditions(list_conditions(where))
        return self.collection.list_label_values(key, conditions, offset, limit)

    def images(self, where: LabelConditions = ()) -> Iterator[Record]:
        """Iterate over the records of the images that meet all conditions `where`, oldest first."""
        conditions = self.collection.conditions(list_conditions(where))
        yield from (record for _, record in self.collection.iterate(conditions))

    def image(self, image_id: str) -> Record:
        """Return the record of an image: labels, source, size, DICOM UIDs."""
        return self.collection.record(image_id)

    def thumbnail(self, image_id: str) -> bytes | None:
        """Return a JPEG of an image with a longer side of at most 256 pixels.

        None if its file is gone or has changed, or if DICOM declares burned-in text, which may name the patient.
        """
        record = self.collection.record(image_id)
        if record.burned_in:
            return None
        stored = self.collection.thumbnail(image_id)
        if stored is None:
            image = read_stored_image(self.collection, record, self.limits.pixels)
            stored = None if image is None else make_thumbnail(image)
        return stored


class Cohort:
    """Images of a kind, found in rounds, as `OpenCollection.cohort` begins it.

    Parameters
    ----------
    searcher : Searcher
        Of the collection.
    judged : mapping of str to bool
        Relevance by image id, of one relevant image at least.
    where : sequence of str or Condition
        Conditions on labels of the images that are searched.
    """

    def __init__(
        self, searcher: Searcher, judged: Mapping[str, bool], where: Sequence[str | Condition]
    ) -> None:
        self._searcher, self._where = searcher, list(where)
        self._judged: dict[str, JudgedImage] = {}
        self._proposed: dict[str, ProposedImage] = {}
        self._round: CohortRound | None = None
        self.judge(judged)

    @property
    def found(self) -> list[str]:
        """Ids of the images judged relevant, in the order of judging."""
        return [image.image_id for image in self._judged.values() if image.relevant]

    @property
    def judged(self) -> list[JudgedImage]:
        """All judgements in their order."""
        return list(self._judged.values())

    def next(self, count: int = BATCH) -> list[ProposedImage]:
        """Return the `count` images to judge next, the most probable first; fewer at the end."""
        if count < 1:
            raise InvalidInput(f"count: at least 1, not {count}")
        batch = next_batch(self._searcher, self._current(), count)
        self._proposed = {image.image_id: image for image in batch}
        return batch

    def judge(self, judged: Mapping[str, bool]) -> None:
        """Add judgements, in place of earlier ones of the same images.

        `judged`: relevance by image id. Raises NotFound for an image that the collection does not have.
        """
        known = self._searcher.collection.numbers_by_id(judged)
        if unknown := [image_id for image_id in judged if image_id not in known]:
            raise NotFound(f"there is no image {unknown[0]}")
        for image_id, relevant in judged.items():
            proposed = self._proposed.get(image_id)
            self._judged.pop(image_id, None)
            self._judged[image_id] = JudgedImage(
                image_id,
                bool(relevant),
                proposed.probability if proposed else None,
                proposed.drawn if proposed else False,
            )
        self._round = None

    def missing(self) -> MissingImages:
        """Return how many images of the cohort are missing, with a 95 % interval."""
        return self._current().missing()

    def export(self, format: str = "csv", title: str = "Cohort") -> str:
        """Return the cohort as a file.

        Parameters
        ----------
        format : str
            csv, dicom, monai, coco or label-studio.
        title : str
            Name of the cohort in the file.
        """
        if format not in EXPORTS:
            raise InvalidInput(f"format: one of {', '.join(EXPORTS)}, not {format}")
        records = self._searcher.collection.records_by_id(self._judged)
        images = [
            (records[image.image_id], image.relevant)
            for image in self._judged.values()
            if image.image_id in records
        ]
        return EXPORTS[format].write(title, images)

    def _current(self) -> CohortRound:
        if self._round is None:
            self._round = start_round(self._searcher, self.judged, self._where)
        return self._round
