"""Parameters of searches: by images, vector or text, and of the re-ranker.

Those of the re-ranker are an object in JSON, NAME=VALUE in forms and addresses.
"""

from typing import Annotated, Any, ClassVar

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    RootModel,
    WithJsonSchema,
    field_validator,
)

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.images import Region
from cbir.rerank.feedback import Feedback
from cbir.rerank.reranker import PAPER, PRESET, ParameterInfo, ParameterSet
from cbir.search import MAX_EXAMPLES, MAX_TEXT, ImageId, Judgements, Request
from cbir.search import example_values as example
from cbir.search.search_models import QueryOrigin
from cbir.search.search_options import SearchFields
from cbir.settings import Settings
from service.http import responses
from service.http.request_params import (
    JSON,
    MAX_NAME_CHARACTERS,
    Numbers,
    Parameters,
    Rendering,
    Where,
    as_list,
    from_json,
)
from service.http.search_kinds import KINDS, SearchKind

MAX_PARAMETERS = 32
MAX_CHARACTERS = 40  # of a name or a value
PRESETS: dict[str, dict[str, Any]] = {
    PRESET: {
        "const": PAPER,
        "description": "The values of the method's paper, in place of those of the collection, for all parameters "
        "that are not named.",
        "examples": [PAPER],
    }
}
METHODS: tuple[type[ParameterSet], ...] = (*rerank.RERANKERS, Feedback)


def _collect(value: Any) -> Any:
    """Collect objects and texts NAME=VALUE into one object of numbers and texts."""
    collected: dict[str, Any] = {}
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            name, equals, text = item.partition("=")
            if not equals:
                raise ValueError("must be of the form NAME=VALUE, for instance P=9")
            item = {name: text}
        if not isinstance(item, dict):
            raise ValueError('must be an object, for instance {"P": 9}')
        for name, number in item.items():
            if len(name) > MAX_CHARACTERS or (isinstance(number, str) and len(number) > MAX_CHARACTERS):
                raise ValueError(f"names and values have at most {MAX_CHARACTERS} characters")
            if not isinstance(number, int | float | str):
                raise ValueError(f'{name} must be a number or "auto"')
            if name in collected:
                raise ValueError(f"{name} was sent more than once")
            collected[name] = number
    return collected


def _schema_of(info: ParameterInfo) -> dict[str, Any]:
    number = {
        "type": "integer" if info.whole else "number",
        "minimum": info.minimum,
        "maximum": info.maximum,
    }
    values = {"anyOf": [number, {"const": info.default}]} if isinstance(info.default, str) else number
    meaning = info.description[0].upper() + info.description[1:]
    description = f"{meaning}: {info.minimum:g} to {info.maximum:g}, by default {info.default}."
    return {**values, "default": info.default, "description": description, "examples": [info.default]}


def _describe_methods(schema: dict[str, Any]) -> None:
    """Replace `schema` by the parameters of each re-ranker, with defaults and bounds."""
    names_by_parameters: dict[tuple[tuple[ParameterInfo, ...], bool], list[str]] = {}
    for method in METHODS:
        key = method.parameter_infos(), bool(method.paper)
        names_by_parameters.setdefault(key, []).append(method.name)  # type: ignore[attr-defined]
    description = schema["description"]
    schema.clear()
    schema["description"] = description
    schema["anyOf"] = [
        {
            "title": ", ".join(names),
            "type": "object",
            "properties": {info.name: _schema_of(info) for info in infos} | (PRESETS if has_paper else {}),
            "additionalProperties": False,
        }
        for (infos, has_paper), names in names_by_parameters.items()
    ]


class RerankParameters(RootModel[Annotated[dict[str, Any], Field(max_length=MAX_PARAMETERS)]]):
    """Parameters of the re-ranker, those of `rerank` or of the default one; the others keep their defaults."""

    model_config = {"json_schema_extra": _describe_methods}


def _no_parameters() -> RerankParameters:
    return RerankParameters({})


AsObject = Annotated[
    RerankParameters,
    BeforeValidator(_collect),
    Field(
        default_factory=_no_parameters,
        description="Parameters of the re-ranker; those that are not named keep their defaults.",
        examples=[{"P": 9}],
    ),
]
AsAssignments = Annotated[
    RerankParameters,
    BeforeValidator(_collect),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "string", "pattern": "^[^=]+=[^=]+$"},
            "maxItems": MAX_PARAMETERS,
            "default": [],
        }
    ),
    Field(
        default_factory=_no_parameters,
        description="Parameters of the re-ranker as NAME=VALUE, each sent as a parameter of its own; see "
        "RerankParameters. Those that are not named keep their defaults.",
        examples=[["P=9"]],
    ),
]
MAX_SITES = 64
MAX_DIMENSIONS = 65_536  # of a vector


def _as_list_of_objects(value: Any) -> Any:
    """Wrap an object in a list; return other values as they are."""
    return [value] if isinstance(value, dict) else value


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

    include: Annotated[
        list[Annotated[str, Field(max_length=MAX_NAME_CHARACTERS)]], BeforeValidator(as_list)
    ] = Field(
        default=[],
        max_length=16,
        description="What the answer is to have beside its results: `cards` of images; `before`, the order without "
        "re-ranking; of uploaded files also `rendering`, `pixels` and `vector`, with which later searches need no "
        "file; and what features add, such as `grade`.",
        examples=[["cards"]],
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
        values["label_bytes"] = responses.MAX_ANSWER_LABELS
        return Request.model_validate(values)


class ByImage(SearchParameters, Rendering):
    """A search by uploaded images; frame, region and window apply to each."""

    parameters: AsAssignments
    feedback: Annotated[
        Judgements,
        BeforeValidator(from_json),
        WithJsonSchema({"type": "string", "contentMediaType": JSON, "default": "[]"}),
    ] = Field(
        default=[],
        description="Judgements of images, from which the order is learned: a JSON list of objects with image_id "
        "and relevance, from -1 (not relevant) to 1.",
        examples=[f'[{{"image_id": "{example.OTHER_IMAGE_ID}", "relevance": 1}}]'],
    )


class SearchBody(SearchParameters):
    """A search by images of the collection, `image_id`, `examples`, or both; by `vector`; or by `text`."""

    kinds: ClassVar[tuple[SearchKind, ...]] = KINDS
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
    origin: Annotated[list[QueryOrigin] | None, BeforeValidator(_as_list_of_objects)] = Field(
        default=None,
        max_length=MAX_EXAMPLES,
        description="For each of `vector` what `query.origin` of the answer to the upload says, as it came: copies "
        "of the picture are left out then, and `exclude_own_study` knows its study. In the JSON only.",
        examples=[[{"content_hash": example.IMAGE_ID, "width": 512, "height": 512, "format": "dicom"}]],
    )
    profile: Annotated[str | None, Field(max_length=MAX_NAME_CHARACTERS)] = Field(
        default=None,
        description="Name or hash of the profile that `vector` was computed with; the search is refused if the "
        "collection has another one.",
        examples=["lite0-max"],
    )
