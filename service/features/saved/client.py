"""Client methods for saved cases and cohorts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict, Unpack
from urllib.parse import quote

from cbir.search import Answer
from cbir.store.records.filter_conditions import LabelConditions, write_conditions
from service.client.connection import (
    Region,
    ServiceConnection,
    Window,
    id_to_send,
    multipart,
    without_none,
    write_json,
)
from service.features.saved.messages import (
    MAX_ANSWERS,
    CasePage,
    CaseSummary,
    CohortBatch,
    CohortEstimate,
    CohortPage,
    CohortSummary,
    SavedCase,
    SavedCohort,
)


class CaseSearchOptions(TypedDict, total=False):
    """Options of the search that a case keeps, as of `Client.search`; text is the query of a search by text."""

    text: str
    region: Region
    frame: int
    window: Window
    k: int
    rerank: str
    parameters: Mapping[str, float | str]
    where: LabelConditions
    group_by: str
    exclude_own_study: bool


class CaseMethods(ServiceConnection):
    """Mixin with the methods of `service.client.Client` for saved cases."""

    def cases(self, words: str = "", *, limit: int = 50) -> Iterator[CaseSummary]:
        """Iterate over the caller's own cases and those that others share, newest first.

        Parameters
        ----------
        words : str
            Text in title or note; all cases if empty.
        limit : int
            Number of cases per request.
        """
        params = {"words": words, "limit": limit}
        return self._all_items(CasePage, "/v1/cases", params, with_collection=False)

    def save_case(
        self,
        title: str,
        answer: Answer,
        *,
        query: Any = None,
        note: str = "",
        shared: bool = False,
        verdict: str = "",
        judged: Mapping[str, float] | None = None,
        **search: Unpack[CaseSearchOptions],
    ) -> SavedCase:
        """Save an answer as a case.

        Parameters
        ----------
        title : str
            1 to 200 characters.
        answer : Answer
            Result of `search`; at most 200 results are kept.
        query : str, path-like, bytes or array
            What was searched with: a file, of which the service keeps a picture without its header, or an image id.
            None for a search by text, which is the option `text`.
        note : str
            Plain text, at most 10,000 characters.
        shared : bool
            Whether others who may use the collection see the case.
        verdict : str
            What to say of the results together, at most 10,000 characters.
        judged : mapping of str to float, optional
            Relevance by image id, from -1 to 1.
        **search
            See `CaseSearchOptions`.
        """
        image_id = None if query is None else id_to_send(query)
        searched = dict(search) | {"where": write_conditions(search.get("where", ()))}
        marks = [{"image_id": image, "relevance": value} for image, value in (judged or {}).items()]
        case = {
            "title": title,
            "note": note,
            "shared": shared,
            "search": without_none(image_id=image_id, **searched),
            "rounds": [marks] if marks else [],
            "marks": marks,
            "method": answer.rerank.method,
            **({"outlier": True} if answer.query.outlier else {}),
            **({"verdict": verdict} if verdict else {}),
            "answers": [
                hit.model_dump(include={"rank", "image_id", "score", "distance"})
                for hit in answer.results[:MAX_ANSWERS]
            ],
        }
        body: dict[str, Any] = {"json": case}
        if query is not None and image_id is None:
            body = {"files": multipart([query]), "data": {"case": write_json(case)}}
        return self._fetch(SavedCase, "POST", "/v1/cases", **body, **self._as_parameter())

    def case(self, case_id: str) -> SavedCase:
        """Return a saved case."""
        return self._fetch(SavedCase, "GET", case_path(case_id), with_collection=False)

    def change_case(
        self, case_id: str, *, title: str | None = None, note: str | None = None, shared: bool | None = None
    ) -> SavedCase:
        """Change a case of the caller; what is None stays.

        Parameters
        ----------
        case_id : str
            Id of the case.
        title, note : str, optional
            New title and note.
        shared : bool, optional
            Whether others who may use the collection see the case.
        """
        change = without_none(title=title, note=note, shared=shared)
        return self._fetch(SavedCase, "PATCH", case_path(case_id), with_collection=False, json=change)

    def delete_case(self, case_id: str) -> None:
        """Delete a case."""
        self._request("DELETE", case_path(case_id), with_collection=False)

    def case_picture(self, case_id: str) -> bytes:
        """Return the stored picture of an uploaded query, as PNG."""
        return self._request("GET", f"{case_path(case_id)}/picture", with_collection=False).content

    def export_case(
        self,
        case_id: str,
        *,
        format: str = "html",
        label_keys: Sequence[str] = ("label",),
        ranks: Sequence[int] | None = None,
    ) -> bytes:
        """Return a case as a teaching file, without ids, UIDs, patient keys, names of files and times.

        Parameters
        ----------
        case_id : str
            Id of the case.
        format : str
            "html", in UTF-8, or "pdf".
        label_keys : sequence of str
            Keys of the labels to show.
        ranks : sequence of int, optional
            Ranks of the results to show, none of them if empty; the first 12 by default.
        """
        sent_ranks = None if ranks is None else list(ranks) or [0]
        params = without_none(format=format, label_keys=list(label_keys) or [""], ranks=sent_ranks)
        path = f"{case_path(case_id)}/export"
        return self._request("GET", path, with_collection=False, params=params).content


def case_path(case_id: str) -> str:
    """Return the path of a case in the API."""
    return f"/v1/cases/{quote(case_id, safe='')}"


class CohortMethods(ServiceConnection):
    """Mixin with the methods of `service.client.Client` for cohorts."""

    def cohorts(self, *, limit: int = 50) -> Iterator[CohortSummary]:
        """Iterate over the caller's own cohorts and those that others share, newest first, `limit` per request."""
        return self._all_items(CohortPage, "/v1/cohorts", {"limit": limit}, with_collection=False)

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
        return self._fetch(CohortSummary, "POST", "/v1/cohorts", json=body, **self._as_parameter())

    def cohort(self, cohort_id: str, *, cards: bool = False) -> SavedCohort:
        """Return a cohort with its judged images, which have their cards if `cards`."""
        params = {"cards": json.dumps(cards)}
        return self._fetch(SavedCohort, "GET", cohort_path(cohort_id), with_collection=False, params=params)

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

    def next_cohort_batch(self, cohort_id: str, count: int = 24, *, cards: bool = False) -> CohortBatch:
        """Return the `count` images to judge next, with cards if `cards`, and the estimate of those missing."""
        path, params = f"{cohort_path(cohort_id)}/batch", {"count": count, "cards": json.dumps(cards)}
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
