"""Types of settings: how their texts are read and checked."""

import json
from ipaddress import ip_network
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer
from pydantic_settings import NoDecode

from cbir.system.access_rights import validate_header_name
from cbir.system.addresses import (
    validate_compare_template,
    validate_http_url,
    validate_index,
    validate_issuer,
    validate_origin,
    validate_state_database,
    validate_viewer_template,
    without_password,
)


def _parse_list(value: Any) -> Any:
    """Return the words of a list in an environment variable: JSON, or text with commas."""
    if not isinstance(value, str):
        return value
    if not value.strip().startswith("["):
        return [word.strip() for word in value.split(",") if word.strip()]
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError('begins with [ but is no JSON list; write a,b or ["a", "b"]') from None


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_parse_list)]
Networks = Annotated[Words, AfterValidator(lambda words: tuple(str(ip_network(word)) for word in words))]
Origins = Annotated[Words, AfterValidator(lambda words: tuple(map(validate_origin, words)))]
HeaderName = Annotated[str, AfterValidator(validate_header_name)]
IndexName = Annotated[str, AfterValidator(validate_index)]
Issuer = Annotated[str, AfterValidator(validate_issuer)]
WebAddress = Annotated[str, AfterValidator(validate_http_url)]
StateAddress = Annotated[
    str, AfterValidator(validate_state_database), PlainSerializer(without_password, when_used="json")
]
ViewerTemplate = Annotated[str, AfterValidator(validate_viewer_template)]
CompareTemplate = Annotated[str, AfterValidator(validate_compare_template)]
