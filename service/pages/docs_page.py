"""Content of the page /docs: the operations of the OpenAPI document, and how their forms are filled in."""

import json
from functools import partial
from typing import Any

from cbir.system.access_rights import Scope
from service.access.auth import access_control
from service.access.caller import current_rights
from service.access.scopes import OpenTo
from service.collections.app_state import AppState
from service.http.operations import describe_schema, mark_up
from service.pages.docs_lines import FILLED_BY_READER, NEEDS, maker_of
from service.pages.docs_values import known_values

FORM = "multipart/form-data"
RELATED = "multipart/related"
EXTENSIONS = {"image/jpeg": ".jpg", "image/png": ".png", "application/octet-stream": ".bin"}


def docs_page_context(document: dict[str, Any], state: AppState) -> dict[str, Any]:
    """Return what the page shows: the operations of `document` by tag, its schemas, and values of `state`."""
    schemas, values = document["components"]["schemas"], known_values(state)
    tags: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, entry in methods.items():
            row = {
                "path": path,
                "method": method.upper(),
                "allowed": _is_allowed(entry["x-scope"]),
                "needs_token": access_control().required and entry["x-scope"] != OpenTo.anyone.value,
                "inputs": [
                    _parameter_input(item, entry, schemas)
                    for item in (*entry.get("parameters", []), *_form_parameters(entry))
                ],
                "bodies": _bodies(entry, schemas),
                "problems": _problems(entry, document),
                "output": _output_file(entry),
                "maker": maker_of(entry["operationId"], values),
                "chosen": entry["operationId"] in FILLED_BY_READER,
                "needs": NEEDS.get(entry["operationId"]),
            }
            tags.setdefault(entry["tags"][0], []).append(entry | row)
    return {
        "info": document["info"],
        "tags": {tag: tags[tag] for tag in sorted(tags, key=_order)},
        "schemas": schemas,
        "described": describe_schema,
        "marked": mark_up,
        "pretty": partial(json.dumps, indent=2, ensure_ascii=False),
        "values": values,
        "tokens": access_control().required,
    }


def _order(tag: str) -> tuple[bool, ...]:
    return tag == "service", tag == "dicomweb", tag != "search"


def _is_allowed(need: str) -> bool:
    rights = current_rights()
    if need == OpenTo.anyone.value:
        return True
    if rights is None:
        return False
    if need == OpenTo.unlimited_token.value:
        return not rights.limited
    return need == OpenTo.any_token.value or rights.allows(Scope(need))


def _parameter_input(
    parameter: dict[str, Any], entry: dict[str, Any], schemas: dict[str, Any]
) -> dict[str, Any]:
    """Return an input of the form; a field that a form body may hold too is sent there instead of in the address."""
    schema = parameter["schema"]
    options = [item for item in schema.get("anyOf", [schema]) if item.get("type") != "null"]
    kind = options[0]
    if "$ref" in kind:
        kind = schemas[kind["$ref"].rpartition("/")[2]]
    choices = kind.get("enum") or (["true", "false"] if kind.get("type") == "boolean" else [])
    return {
        **parameter,
        "type": " or ".join(describe_schema(kind if item is options[0] else item) for item in options),
        "default": schema.get("default"),
        "choices": choices,
        "repeated": kind.get("type") == "array" and "prefixItems" not in kind,
        "in_form": parameter["name"] in _form_fields(entry),
        "required": parameter.get("required", False) or parameter["name"] in _required_fields(entry),
        "text": _text(parameter["example"]) if "example" in parameter else "",
    }


def _form_fields(entry: dict[str, Any]) -> dict[str, Any]:
    content = entry.get("requestBody", {}).get("content", {})
    fields: dict[str, Any] = content[FORM]["schema"]["properties"] if FORM in content else {}
    return fields


def _required_fields(entry: dict[str, Any]) -> list[str]:
    content = entry.get("requestBody", {}).get("content", {})
    names: list[str] = content[FORM]["schema"]["required"] if FORM in content else []
    return names


def _form_parameters(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of a form body that the query string cannot hold, as parameters in the form."""
    names = {"image", *(parameter["name"] for parameter in entry.get("parameters", []))}
    return [
        {
            "name": name,
            "in": "form",
            "required": False,
            "description": field["description"],
            "example": field["examples"][0],
            "schema": field,
        }
        for name, field in _form_fields(entry).items()
        if name not in names
    ]


def _text(value: Any) -> str:
    """Return a value as it is typed into an input."""
    if isinstance(value, list):
        lines = all(isinstance(item, str) for item in value)
        return "\n".join(value) if lines else ",".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def _bodies(entry: dict[str, Any], schemas: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the ways to send the request's body: as a form, as JSON, or as a file."""
    bodies: list[dict[str, Any]] = []
    for media, content in entry.get("requestBody", {}).get("content", {}).items():
        schema = content.get("schema", {})
        body = {"media": media, "kind": "file"}
        if media == FORM:
            image = schema["properties"]["image"]
            body |= {"kind": "form", "several": image.get("type") == "array", "fields": {"image": image}}
        elif media == RELATED:
            body |= {"kind": "related"}
        elif "example" in content:
            model = schemas[schema["$ref"].rpartition("/")[2]]
            body |= {"kind": "json", "text": json.dumps(content["example"], indent=2)}
            body |= {"fields": model["properties"], "required": model.get("required", [])}
        bodies.append(body)
    return bodies


def _problems(entry: dict[str, Any], document: dict[str, Any]) -> dict[str, str]:
    components = document["components"]["responses"]
    return {
        status: components[status]["description"] for status in entry["responses"] if status in components
    }


def _output_file(entry: dict[str, Any]) -> str:
    """Return the name of a file for the content of a response, "" for text."""
    for response in entry["responses"].values():
        for media in response.get("content", {}):
            if media in EXTENSIONS:
                return f"{entry['operationId']}{EXTENSIONS[media]}"
    return ""
