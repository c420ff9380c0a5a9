"""Cohort of an open collection: find all images of a kind in rounds of judgements."""

from collections.abc import Mapping, Sequence

from cbir.errors import InvalidInput, NotFound
from cbir.search import Searcher
from cbir.search.cohorts.cohort_round import BATCH, CohortRound, next_batch, start_round
from cbir.search.cohorts.export_formats import EXPORTS
from cbir.search.cohorts.judged_image import JudgedImage, ProposedImage
from cbir.search.cohorts.missing_images import MissingImages


class Cohort:
    """Images of a kind, found in rounds, as `OpenCollection.cohort` begins it.

    Parameters
    ----------
    searcher : Searcher
        Of the collection.
    judged : mapping of str to bool
        Relevance by image id, of one relevant image at least.
    where : sequence of str
        Conditions on labels of the images that are searched.
    """

    def __init__(self, searcher: Searcher, judged: Mapping[str, bool], where: Sequence[str]) -> None:
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
