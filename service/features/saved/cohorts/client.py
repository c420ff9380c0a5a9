"""Client methods for cohorts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from cbir.store.records.filter_conditions import LabelConditions, write_conditions
from service.client.connection import ServiceConnection, without_none
from service.features.saved.cohorts.messages import (
    CohortBatch,
    CohortEstimate,
    CohortPage,
    CohortSummary,
    SavedCohort,
)


class CohortMethods(ServiceConnection):
    """Mixin with the methods of `service.client.Client` for cohorts."""

    def cohorts(self, *, limit: int = 50) -> Iterator[CohortSummary]:
        """Iterate over the caller's own cohorts and those that others share, newest first, `limit` per request."""
        params: dict[str, Any] = {"limit": limit}
        while True:
            page = self._fetch(CohortPage, "GET", "/v1/cohorts", params=params, with_collection=False)
            yield from page.items
            if page.next is None:
                return
            params["cursor"] = page.next

    def begin_cohort(
        self,
        title: str,
        relevant: Sequence[str],
        *,
        irrelevant: Sequence[str] = (),
        where: LabelConditions = (),
        note: str = "",
        shared: bool = False,
    ) -> CohortSummary:
        """Begin a cohort: find all images of a kind.

        Parameters
        ----------
        title : str
            1 to 200 characters.
        relevant, irrelevant : sequence of str
            Ids of images that belong to it, at least one, and of others that do not.
        where : str, Condition or sequence of them
            Conditions on labels of the images that are searched.
        note : str
            Plain text.
        shared : bool
            Whether others who may use the collection see the cohort.
        """
        body = {
            "title": title,
            "note": note,
            "shared": shared,
            "relevant": list(relevant),
            "irrelevant": list(irrelevant),
            "where": write_conditions(where),
        }
        return self._fetch(
            CohortSummary,
            "POST",
            "/v1/cohorts",
            json=body,
            **self._as_parameter(),
        )

    def cohort(self, cohort_id: str) -> SavedCohort:
        """Return a cohort with its judged images."""
        return self._fetch(SavedCohort, "GET", cohort_path(cohort_id), with_collection=False)

    def change_cohort(
        self, cohort_id: str, *, title: str | None = None, note: str | None = None, shared: bool | None = None
    ) -> CohortSummary:
        """Change a cohort of the caller; what is None stays.

        Parameters
        ----------
        cohort_id : str
            Id of the cohort.
        title, note : str, optional
            New title and note.
        shared : bool, optional
            Whether others who may use the collection see the cohort.
        """
        change = without_none(title=title, note=note, shared=shared)
        path = cohort_path(cohort_id)
        return self._fetch(CohortSummary, "PATCH", path, with_collection=False, json=change)

    def delete_cohort(self, cohort_id: str) -> None:
        """Delete a cohort with its judgements."""
        self._request("DELETE", cohort_path(cohort_id), with_collection=False)

    def next_cohort_batch(self, cohort_id: str, count: int = 24) -> CohortBatch:
        """Return the `count` images to judge next, and the estimate of how many are missing."""
        path, params = f"{cohort_path(cohort_id)}/batch", {"count": count}
        return self._fetch(CohortBatch, "POST", path, with_collection=False, params=params)

    def judge_cohort(self, cohort_id: str, judged: Mapping[str, bool]) -> CohortSummary:
        """Say of images, by id, whether they belong to a cohort."""
        judgements = [{"image_id": image_id, "relevant": value} for image_id, value in judged.items()]
        path, body = f"{cohort_path(cohort_id)}/judgements", {"judgements": judgements}
        return self._fetch(CohortSummary, "POST", path, with_collection=False, json=body)

    def undo_cohort(self, cohort_id: str) -> CohortSummary:
        """Take back the judgements of the last call."""
        path = f"{cohort_path(cohort_id)}/undo"
        return self._fetch(CohortSummary, "POST", path, with_collection=False)

    def cohort_estimate(self, cohort_id: str) -> CohortEstimate:
        """Return how many images of a cohort are found and missing."""
        path = f"{cohort_path(cohort_id)}/estimate"
        return self._fetch(CohortEstimate, "GET", path, with_collection=False)

    def export_cohort(self, cohort_id: str, format: str = "csv") -> str:
        """Return a cohort as a file, in the `format` csv, dicom, monai, coco or label-studio."""
        path, params = f"{cohort_path(cohort_id)}/export", {"format": format}
        return self._request("GET", path, with_collection=False, params=params).text


def cohort_path(cohort_id: str) -> str:
    """Return the path of a cohort in the API."""
    return f"/v1/cohorts/{quote(cohort_id, safe='')}"
