"""The methods of `cbir.client.Client` that speak of studies, series and instances."""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from urllib.parse import quote

from cbir.client.messages import SimilarAnswer

if TYPE_CHECKING:
    import httpx

Data = Path | bytes


class SimilarOptions(TypedDict, total=False):
    """level: "instance", "series" or "study", what is answered. combine: "max", "sum" or "frequency" of the images
    of one. exclude: "instance", "series", "study" or "patient" of the query, left out. depth: images of each list
    that count. limit, offset: of the answers, best first.
    """

    level: str
    combine: str
    exclude: str
    depth: int
    rerank: str
    where: Sequence[str]
    limit: int
    offset: int


class DicomSimilarOptions(SimilarOptions, total=False):
    """includefield: keywords or tags of further attributes, or "all"."""

    includefield: Sequence[str]


class DicomwebMethods:
    """Mixed into the client, which knows how to ask."""

    if TYPE_CHECKING:

        def _ask(self, method: str, path: str, *, named: bool = True, **given: Any) -> httpx.Response: ...

    def similar(
        self,
        study: str,
        series: str | None = None,
        instance: str | None = None,
        **wanted: Unpack[SimilarOptions],
    ) -> SimilarAnswer:
        """What is like the study with this UID, or like a series or an instance of it."""
        named = {"study": study, "series": series, "instance": instance}
        asked = {name: value for name, value in named.items() if value} | dict(wanted)
        return SimilarAnswer.model_validate_json(self._ask("GET", "/v1/similar", params=asked).content)

    def similar_to_instance(
        self, study: str, series: str, instance: str, **wanted: Unpack[DicomSimilarOptions]
    ) -> list[dict[str, Any]]:
        """As `similar`, in the DICOM JSON model (PS3.18, annex F)."""
        return self._similar(("studies", study, "series", series, "instances", instance), dict(wanted))

    def similar_to_series(
        self, study: str, series: str, **wanted: Unpack[DicomSimilarOptions]
    ) -> list[dict[str, Any]]:
        """As `similar`, in the DICOM JSON model."""
        return self._similar(("studies", study, "series", series), dict(wanted))

    def similar_to_study(self, study: str, **wanted: Unpack[DicomSimilarOptions]) -> list[dict[str, Any]]:
        """As `similar`, in the DICOM JSON model."""
        return self._similar(("studies", study), dict(wanted))

    def _similar(self, parts: Sequence[str], wanted: dict[str, Any]) -> list[dict[str, Any]]:
        path = "/".join(quote(part, safe="") for part in parts)
        answer = self._ask("GET", f"/dicomweb/{path}/similar", params=wanted)
        found: list[dict[str, Any]] = answer.json() if answer.content else []
        return found

    def store_instances(self, instances: Data | Sequence[Data]) -> dict[str, Any]:
        """Add DICOM files by STOW-RS; the store instances response in the DICOM JSON model (PS3.18, I.2)."""
        files = [instances] if isinstance(instances, Path | bytes) else list(instances)
        edge = secrets.token_hex(16)
        head = f"--{edge}\r\nContent-Type: application/dicom\r\n\r\n".encode()
        read = (one if isinstance(one, bytes) else one.read_bytes() for one in files)
        content = b"".join(head + data + b"\r\n" for data in read)
        kind = f'multipart/related; type="application/dicom"; boundary={edge}'
        answer = self._ask(
            "POST",
            "/dicomweb/studies",
            content=content + f"--{edge}--\r\n".encode(),
            headers={"Content-Type": kind},
        )
        found: dict[str, Any] = answer.json()
        return found
