"""Parameters of re-rankers in requests: an object in JSON, NAME=VALUE in forms and addresses."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, RootModel, WithJsonSchema

from cbir import rerank
from cbir.rerank.feedback import Feedback
from cbir.rerank.parameters import ParameterInfo, ParameterSet

MAX_PARAMETERS = 32
MAX_CHARACTERS = 40  # of a name or a value

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
    names_by_parameters: dict[tuple[ParameterInfo, ...], list[str]] = {}
    for method in METHODS:
        names_by_parameters.setdefault(method.parameter_infos(), []).append(method.name)  # type: ignore[attr-defined]
    description = schema["description"]
    schema.clear()
    schema["description"] = description
    schema["anyOf"] = [
        {
            "title": ", ".join(names),
            "type": "object",
            "properties": {info.name: _schema_of(info) for info in infos},
            "additionalProperties": False,
        }
        for infos, names in names_by_parameters.items()
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
