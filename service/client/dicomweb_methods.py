"""Client methods for studies, series and instances."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack
from urllib.parse import quote

from cbir.store.records.filter_conditions import LabelConditions, write_conditions
from service.client.connection import ImageData, ServiceConnection, assignments, read_files, without_none
from service.client.messages import SimilarAnswer


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


class DicomwebMethods(ServiceConnection):
    """Mixin with the DICOM methods of `service.client.Client`."""

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
        return SimilarAnswer.model_validate_json(self._request("GET", "/v1/similar", params=params).content)

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

    def store_instances(self, instances: ImageData | Sequence[ImageData]) -> dict[str, Any]:
        """Add DICOM files by STOW-RS; return the store instances response in the DICOM JSON model (PS3.18, I.2)."""
        return self._store("/dicomweb/studies", instances)

    def store_study_instances(self, study: str, instances: ImageData | Sequence[ImageData]) -> dict[str, Any]:
        """Add DICOM files of the study with this UID, as `store_instances` does; those of others are refused."""
        return self._store(f"/dicomweb/studies/{quote(study, safe='')}", instances)

    def _store(self, path: str, instances: ImageData | Sequence[ImageData]) -> dict[str, Any]:
        boundary = secrets.token_hex(16)
        head = f"--{boundary}\r\nContent-Type: application/dicom\r\n\r\n".encode()
        content = b"".join(head + data + b"\r\n" for data in read_files(instances))
        response = self._request(
            "POST",
            path,
            content=content + f"--{boundary}--\r\n".encode(),
            headers={"Content-Type": f'multipart/related; type="application/dicom"; boundary={boundary}'},
        )
        dataset: dict[str, Any] = response.json()
        return dataset


def _query(options: SimilarOptions) -> dict[str, Any]:
    """Return the query string's parameters of options."""
    return dict(options) | without_none(
        parameters=assignments(options.get("parameters")),
        where=write_conditions(options.get("where", ())) or None,
    )
