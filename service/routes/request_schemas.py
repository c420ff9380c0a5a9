"""Schemas of what requests hold, as generators of clients need them."""

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any

from service.http.search_kinds import SearchKind
from service.routes.openapi_examples import Schemas

REFERENCE = "#/components/schemas/{model}"


def leave_out_defaults(schemas: Schemas, models: Iterable[str]) -> None:
    """Remove the defaults of all fields of `models`, and of the models that they name, from `schemas`.

    Generated clients send defaults or demand the fields; the service knows them, and descriptions name them.
    """
    for name in _with_references(schemas, models):
        _remove_defaults(schemas[name])


def without_null(field: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field as forms can send it; generated clients would send the text "None"."""
    parts = field.get("anyOf", [])
    others = [part for part in parts if part != {"type": "null"}]
    if len(others) == len(parts):
        return field
    rest = {key: value for key, value in field.items() if key != "anyOf"}
    return {**others[0], **rest} if len(others) == 1 else {"anyOf": others, **rest}


def keep_for_older_addresses(schemas: Schemas, models: Iterable[str], field: str) -> dict[str, str]:
    """Remove `field` from `models` and the models that they name, and keep copies with it; return the copies' names.

    The address of a collection stands for the field, which the bodies of the older addresses still have.
    """
    copies = {
        name: f"Deprecated{name}"
        for name in _with_references(schemas, models)
        if any(field in schemas[each].get("properties", {}) for each in _with_references(schemas, [name]))
    }
    for name, copy in copies.items():
        schemas[copy] = deepcopy(schemas[name]) | {"title": copy}
        rename_references(schemas[copy], copies)
    for name in copies:
        schemas[name].get("properties", {}).pop(field, None)
    return copies


def split_by_kind(schemas: Schemas, model: str, kinds: Sequence[SearchKind]) -> None:
    """Replace the schema of a model by one of several, each with the fields of a kind of search; none: leave it."""
    if not kinds:
        return
    whole = schemas[model]
    for kind in kinds:
        fields = {name: whole["properties"][name] for name in kind.fields}
        schemas[kind.schema] = {
            "title": kind.schema,
            "description": kind.description,
            "type": "object",
            "properties": fields | {name: without_null(fields[name]) for name in kind.required},
            "required": list(kind.required),
            "additionalProperties": False,
            "examples": [kind.example],
        }
    references = [{"$ref": REFERENCE.format(model=kind.schema)} for kind in kinds]
    schemas[model] = {name: whole[name] for name in ("title", "description", "examples")} | {
        "oneOf": references
    }


def without_field(schema: dict[str, Any], field: str) -> dict[str, Any]:
    """Return the schema of a model without one of its fields."""
    fields = {name: each for name, each in schema.get("properties", {}).items() if name != field}
    return schema | {"properties": fields}


def rename_references(schema: Any, names: dict[str, str]) -> None:
    """Let references to models of `schema` name others; `names`: new name by name."""
    for key, value in schema.items() if isinstance(schema, dict) else enumerate(schema):
        if key == "$ref":
            start, _, name = value.rpartition("/")
            schema[key] = f"{start}/{names.get(name, name)}"
        elif isinstance(value, dict | list):
            rename_references(value, names)


def _with_references(schemas: Schemas, models: Iterable[str]) -> set[str]:
    names: set[str] = set()
    waiting = list(models)
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting += _references(schemas[name])
    return names


def _references(schema: Any) -> Iterator[str]:
    for key, value in schema.items() if isinstance(schema, dict) else enumerate(schema):
        if key == "$ref":
            yield value.rpartition("/")[2]
        elif isinstance(value, dict | list):
            yield from _references(value)


def _remove_defaults(schema: Any) -> None:
    for field in schema.get("properties", {}).values():
        field.pop("default", None)
        for part in (field, *field.get("anyOf", [])):
            _remove_defaults(part)
    for part in schema.get("anyOf", []):
        _remove_defaults(part)
