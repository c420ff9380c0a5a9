"""Parameters of searches: by uploaded images, by images of the collection, by vector, by text."""

import json
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, FiniteFloat, WithJsonSchema, field_validator

from cbir.errors import InvalidInput
from cbir.images import Region
from cbir.search import MAX_EXAMPLES, MAX_TEXT, ImageId, Judgements, Request
from cbir.search import example_values as example
from cbir.search.search_options import SearchFields
from cbir.settings import Settings
from service.http import label_budget
from service.http.rendering_parameters import Numbers, Rendering
from service.http.request_params import JSON, MAX_NAME_CHARACTERS, Parameters, Where, as_list
from service.http.rerank_parameters import AsAssignments, AsObject

MAX_SITES = 64
MAX_DIMENSIONS = 65_536  # of a vector


def _parse_list(value: Any) -> Any:
    """Parse a JSON list sent as text in a form or an address."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("must be a JSON list") from None


def _as_rows(value: Any) -> Any:
    """Wrap a list of numbers in a list; return other values as they are."""
    return [value] if isinstance(value, list) and value and not isinstance(value[0], list) else value


Vector = Annotated[list[FiniteFloat], Field(min_length=1, max_length=MAX_DIMENSIONS)]
_VALUES = {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": MAX_DIMENSIONS}
_VECTORS = {"type": "array", "items": _VALUES, "minItems": 1, "maxItems": MAX_EXAMPLES}
Vectors = Annotated[
    list[Vector],
    BeforeValidator(_as_rows),
    Field(min_length=1, max_length=MAX_EXAMPLES),
    WithJsonSchema({"anyOf": [_VALUES, _VECTORS]}),
]


class SearchParameters(SearchFields, Parameters):
    """Parameters of every search."""

    federated: bool = Field(
        default=False,
        description="True to ask the other services of the setting `sites` too, with the vector of the query alone. "
        "Then the search is with one image or vector, without examples, judgements, groups and thresholds, and not "
        "re-ranked unless `rerank` names a method.",
        examples=[True],
    )
    sites: Annotated[
        list[Annotated[str, Field(max_length=MAX_NAME_CHARACTERS)]], BeforeValidator(as_list)
    ] = Field(
        default=[],
        max_length=MAX_SITES,
        description="Names of the services to ask, as `federated` does; all of them by default.",
        examples=[["north"]],
    )

    parameters: AsObject
    where: Where = Field(default=[])
    collection: Annotated[str | None, Field(max_length=MAX_NAME_CHARACTERS)] = Field(
        default=None,
        description="Name of the collection; the caller's first one by default.",
        examples=["knees"],
    )

    anywhere: bool = Field(
        default=False,
        description="True for images that have something like `region` at any place, which their `match` tells; "
        "the score is the mean cosine of the region's cells there. Needs the cells of `cbir collection regions`. For "
        "a region of one image, without examples, feedback and re-ranking.",
        examples=[True],
    )

    @field_validator("examples", mode="before")
    @classmethod
    def _list_examples(cls, value: Any) -> Any:
        return as_list(value)

    def to_request(self, settings: Settings, patient_key: str | None) -> Request:
        """Return the request for the searcher, which excludes the patient of `patient_key`.

        Raises InvalidInput if k, or k times group_size, exceeds `max_results` of `settings`.
        """
        if self.k > settings.max_results:
            raise InvalidInput(f"k: at most {settings.max_results}, not {self.k}")
        if self.k * self.group_size > settings.max_results:
            raise InvalidInput(
                f"group_size: k x group_size is at most {settings.max_results}, not {self.k * self.group_size}"
            )
        values = {
            name: getattr(self, name) for name in SearchFields.model_fields if name != "exclude_patient"
        }
        values |= {"parameters": self.parameters.root, "exclude_patient_key": patient_key}
        values["label_bytes"] = label_budget.MAX_ANSWER_LABELS
        return Request.model_validate(values)


class ByImage(SearchParameters, Rendering):
    """A search by uploaded images; frame, region and window apply to each."""

    parameters: AsAssignments
    feedback: Annotated[
        Judgements,
        BeforeValidator(_parse_list),
        WithJsonSchema({"type": "string", "contentMediaType": JSON, "default": "[]"}),
    ] = Field(
        default=[],
        description="Judgements of images, from which the order is learned: a JSON list of objects with image_id "
        "and relevance, from -1 (not relevant) to 1.",
        examples=[f'[{{"image_id": "{example.OTHER_IMAGE_ID}", "relevance": 1}}]'],
    )


class ById(SearchParameters):
    """A search by images of the collection, `image_id`, `examples`, or both; by `vector`; or by `text`."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"image_id": example.IMAGE_ID, "k": 5, "rerank": "none"}]}
    )

    image_id: ImageId | None = Field(
        default=None, description="Id of the image to search with.", examples=[example.IMAGE_ID]
    )
    region: Annotated[Region | None, Numbers] = Field(
        default=None,
        description="Part of `image_id` to search with, as x,y,width,height in pixels from its upper left corner; "
        "its file must still be there.",
        examples=[[40, 60, 120, 80]],
    )
    text: Annotated[str | None, Field(min_length=1, max_length=MAX_TEXT)] = Field(
        default=None,
        description="Words to search with, where the collection's encoder has a text tower; without image_id, "
        "examples, feedback and re-ranking, and in the JSON only, since addresses are written to logs.",
        examples=["chest radiograph"],
    )
    vector: Vectors | None = Field(
        default=None,
        description="Raw values of the profile's descriptor to search with, as many as the profile has `dimensions`; "
        f"or a list of at most {MAX_EXAMPLES} such lists, which are one query. Finite numbers. Images with the same "
        "vector are results like others. In the JSON only.",
        examples=[[0.12, 0.0, 3.5]],
    )
    profile: Annotated[str | None, Field(max_length=MAX_NAME_CHARACTERS)] = Field(
        default=None,
        description="Name or hash of the profile that `vector` was computed with; the search is refused if the "
        "collection has another one.",
        examples=["lite0-max"],
    )
