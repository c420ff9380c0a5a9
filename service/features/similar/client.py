"""Client methods for similar studies, series and instances, and for the other studies of a patient."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack
from urllib.parse import quote

from cbir.store.records.filter_conditions import LabelConditions, write_conditions
from service.client.connection import ServiceConnection, assignments, image_path, without_none
from service.features.similar.messages import PriorAnswer, SimilarAnswer


class PriorOptions(TypedDict, total=False):
    """Options of a search for other studies.

    order: "likeness", or "time", the nearest first. where: label conditions. limit: most studies.
    """

    order: str
    where: LabelConditions
    limit: int


class PriorMethods(ServiceConnection):
    """Mixin with the methods of `service.client.Client` for the other studies of a patient."""

    def priors(self, image_id: str, *, images: int = 4, **options: Unpack[PriorOptions]) -> PriorAnswer:
        """Return the other studies of the patient of an image, best first.

        Parameters
        ----------
        image_id : str
            Id of the image.
        images : int
            Most images of a study.
        **options
            See `PriorOptions`.
        """
        params = _prior_query(options) | {"images": images}
        return self._fetch(PriorAnswer, "GET", f"{image_path(image_id)}/priors", params=params)

    def priors_of_study(self, study: str, **options: Unpack[PriorOptions]) -> list[dict[str, Any]]:
        """Return the other studies of the patient of a study in the DICOM JSON model; see `PriorOptions`."""
        address = f"/dicomweb/studies/{quote(study, safe='')}/priors"
        response = self._request("GET", address, params=_prior_query(options))
        datasets: list[dict[str, Any]] = response.json() if response.content else []
        return datasets


def _prior_query(options: PriorOptions) -> dict[str, Any]:
    return dict(options) | {"where": write_conditions(options.get("where", ()))}


class SimilarOptions(TypedDict, total=False):
    """Options of a search by UIDs.

    level: "instance", "series" or "study" of the results. combine: "max", "sum" or "frequency" of the scores of a
    result's images, or "maxsim", the mean over the query's images of the similarity to the best image of a result,
    which takes neither depth nor rerank. exclude: "instance", "series", "study" or "patient" of the query, which is
    left out. depth: number of images that count in each ranking list. limit, offset: page of the results, best first.
    """

    level: str
    combine: str
    exclude: str
    depth: int
    rerank: str
    parameters: Mapping[str, float | str]
    where: LabelConditions
    limit: int
    offset: int


class DicomSimilarOptions(SimilarOptions, total=False):
    """Options of a search with results in DICOM JSON.

    includefield: keywords or tags of further attributes, or "all".
    """

    includefield: Sequence[str]


class SimilarMethods(ServiceConnection):
    """Mixin with the methods of `service.client.Client` that search with a study, series or instance."""

    def similar(
        self,
        study: str,
        series: str | None = None,
        instance: str | None = None,
        **options: Unpack[SimilarOptions],
    ) -> SimilarAnswer:
        """Search for cases similar to a study, or to a series or instance of it.

        Parameters
        ----------
        study : str
            Study Instance UID.
        series, instance : str, optional
            UIDs of a series and an instance.
        **options
            See `SimilarOptions`.
        """
        uids = {"study": study, "series": series, "instance": instance}
        params = {name: value for name, value in uids.items() if value} | _query(options)
        return self._fetch(SimilarAnswer, "GET", "/v1/similar", params=params)

    def similar_to_instance(
        self, study: str, series: str, instance: str, **options: Unpack[DicomSimilarOptions]
    ) -> list[dict[str, Any]]:
        """Search for cases similar to an instance; return them in the DICOM JSON model (PS3.18, annex F).

        Parameters
        ----------
        study, series, instance : str
            UIDs of the instance.
        **options
            See `DicomSimilarOptions`.
        """
        return self._similar(("studies", study, "series", series, "instances", instance), _query(options))

    def similar_to_series(
        self, study: str, series: str, **options: Unpack[DicomSimilarOptions]
    ) -> list[dict[str, Any]]:
        """Search for cases similar to a series; return them in the DICOM JSON model.

        Parameters
        ----------
        study, series : str
            UIDs of the series.
        **options
            See `DicomSimilarOptions`.
        """
        return self._similar(("studies", study, "series", series), _query(options))

    def similar_to_study(self, study: str, **options: Unpack[DicomSimilarOptions]) -> list[dict[str, Any]]:
        """Search for cases similar to a study, with `DicomSimilarOptions`; return them in the DICOM JSON model."""
        return self._similar(("studies", study), _query(options))

    def _similar(self, parts: Sequence[str], params: dict[str, Any]) -> list[dict[str, Any]]:
        path = "/".join(quote(part, safe="") for part in parts)
        response = self._request("GET", f"/dicomweb/{path}/similar", params=params)
        datasets: list[dict[str, Any]] = response.json() if response.content else []
        return datasets


def _query(options: SimilarOptions) -> dict[str, Any]:
    """Return the query string's parameters of options."""
    return dict(options) | without_none(
        parameters=assignments(options.get("parameters")),
        where=write_conditions(options.get("where", ())) or None,
    )
