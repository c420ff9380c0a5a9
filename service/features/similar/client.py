"""Client methods for the other studies of a patient."""

from typing import Any, TypedDict, Unpack
from urllib.parse import quote

from cbir.store.records.filter_conditions import LabelConditions, write_conditions
from service.client.connection import ServiceConnection, image_path
from service.features.similar.messages import PriorAnswer


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
        params = _query(options) | {"images": images}
        return self._fetch(PriorAnswer, "GET", f"{image_path(image_id)}/priors", params=params)

    def priors_of_study(self, study: str, **options: Unpack[PriorOptions]) -> list[dict[str, Any]]:
        """Return the other studies of the patient of a study in the DICOM JSON model; see `PriorOptions`."""
        address = f"/dicomweb/studies/{quote(study, safe='')}/priors"
        response = self._request("GET", address, params=_query(options))
        datasets: list[dict[str, Any]] = response.json() if response.content else []
        return datasets


def _query(options: PriorOptions) -> dict[str, Any]:
    return dict(options) | {"where": write_conditions(options.get("where", ()))}
