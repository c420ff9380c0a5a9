"""Schemas, examples and parameters in the OpenAPI document, as generators of clients need them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Annotated, Any, get_type_hints

from pydantic import Field, TypeAdapter
from werkzeug.routing import Rule

from service.http.search_kinds import SearchKind

Schemas = dict[str, dict[str, Any]]
REFERENCE = "#/components/schemas/{model}"
IN_RULE = re.compile(r"<(?:[^:<>]+:)?([^:<>]+)>")  # <name> or <converter:name> of a URL rule
ABOUT = ("description", "example")  # keys of a parameter, not of its schema
CollectionInPath = Annotated[str, Field(description="Name of the collection.", examples=["knees"])]
ETAG = '"5a9fea906a53942935232b73"'
HEADERS = {
    "Idempotency-Key": {
        "description": "1 to 255 printable characters; a request that repeats them within 24 hours is not executed "
        "again, and gets the first response, as long as it is among the last 45,000.",
        "example": "batch-7",
    },
    "If-Match": {
        "description": "ETag of the image as last seen; 412 if the image has changed since.",
        "example": ETAG,
    },
    "If-None-Match": {
        "description": "ETag of the client's copy; 304 if the copy is still current.",
        "example": ETAG,
    },
}


def add_examples(schemas: Schemas) -> None:
    """Add an example to every field of `schemas` without one: composed of those of its model, or null."""
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            if "examples" not in field:
                composed = compose_example(field, schemas)
                if composed is not None or {"type": "null"} in field.get("anyOf", []):
                    field["examples"] = [composed]


def compose_example(schema: dict[str, Any], schemas: Schemas) -> Any:
    """Return an example of `schema`, None if the fields of its model have none; `schemas` are the models by name."""
    if "examples" in schema:
        return schema["examples"][0]
    if "$ref" in schema:
        return compose_example(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in schema:
        return compose_example(schema["anyOf"][0], schemas)
    if "items" in schema:
        item = compose_example(schema["items"], schemas)
        return None if item is None else [item]
    if "properties" in schema:
        fields = schema["properties"].items()
        return {name: compose_example(field, schemas) for name, field in fields}
    return None


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


def path_of(rule: Rule) -> str:
    """Return the path of `rule` with its parameters in braces."""
    return IN_RULE.sub(r"{\1}", rule.rule)


def parameters_in_path(rule: Rule, view: Any) -> list[dict[str, Any]]:
    """Return the parameters in the path of `rule`, as the arguments of its `view` are annotated."""
    hints = get_type_hints(view, include_extras=True) | {"collection": CollectionInPath}
    return [
        _parameter(name, "path", TypeAdapter(hints[name]).json_schema(), required=True)
        for name in IN_RULE.findall(rule.rule)
    ]


def parameters_in_query(schema: dict[str, Any], *, also_in_body: bool = False) -> list[dict[str, Any]]:
    """Return the fields of a model's `schema` as parameters in the query string.

    Generated clients send defaults and what is required; where a body may hold the same fields, that would be twice.
    """
    required = [] if also_in_body else schema.get("required", [])
    left_out = ("default",) if also_in_body else ()
    fields = {
        name: {key: value for key, value in field.items() if key not in left_out}
        for name, field in schema.get("properties", {}).items()
    }
    return [
        _parameter(name, "query", field, required=name in required)
        | ({"style": "form", "explode": False} if "prefixItems" in str(field) else {})
        for name, field in fields.items()
    ]


def parameters_in_headers(names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the request headers `names` as parameters."""
    return [{"name": name, "in": "header", **HEADERS[name], "schema": {"type": "string"}} for name in names]


def _parameter(name: str, where: str, field: dict[str, Any], *, required: bool) -> dict[str, Any]:
    about = {key: field[key] for key in ABOUT if key in field}
    if "examples" in field:
        about["example"] = field["examples"][0]
    schema = {key: value for key, value in field.items() if key not in (*ABOUT, "examples", "title")}
    return {"name": name, "in": where, "required": required, **about, "schema": schema}


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
