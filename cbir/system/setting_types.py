"""Types of settings: how their texts are read and checked, and the sites that searches may ask."""

import json
import re
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)
from pydantic_settings import NoDecode

from cbir.errors import InvalidInput
from cbir.system.access_rights import validate_header_name
from cbir.system.addresses import (
    is_private_link,
    validate_compare_template,
    validate_http_url,
    validate_index,
    validate_issuer,
    validate_origin,
    validate_state_database,
    validate_viewer_template,
    without_password,
)

SITE_NAME = re.compile(r"[\w-][\w .-]{0,39}")

TOKEN = re.compile(r"[!-~]{1,4096}")

MAX_TOKEN_FILE = 8192  # bytes


def _validate_name(name: str) -> str:
    if not SITE_NAME.fullmatch(name) or name != name.strip():
        raise ValueError(f"{name!r} is no name of a site: 1 to 40 letters, digits, spaces and . _ -")
    return name


def _validate_url(url: str) -> str:
    """Return the URL of a service; raise ValueError for http beyond this machine, where others could read along."""
    url = validate_http_url(url)
    if not is_private_link(url):
        raise ValueError(f"{url} must begin with https://, because vectors and the token are sent there")
    return url


SiteName = Annotated[str, AfterValidator(_validate_name)]


class RemoteSite(BaseModel):
    """Another service.

    url: its address; https, except on this machine. collection: name of its collection; None for the first that the
    token may use. token_file: file with a token of that service with the scope `federate`. certificate, key: PEM
    files with the certificate that this service shows, where that one asks for it, and its private key. ca: PEM file
    of the authorities that sign that service's certificate; None for those of the system. seconds: time limit of an
    answer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: Annotated[str, AfterValidator(_validate_url)]
    collection: str | None = None
    token_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    seconds: float = Field(5.0, gt=0, le=60)

    @model_validator(mode="after")
    def _key_belongs_to_certificate(self) -> "RemoteSite":
        if self.key and not self.certificate:
            raise ValueError("key is of no use without certificate; set both")
        return self

    def read_token(self) -> str | None:
        """Return the token in the token file; None without a file. Raises InvalidInput, which names no token."""
        if self.token_file is None:
            return None
        try:
            with self.token_file.open("rb") as file:
                text = file.read(MAX_TOKEN_FILE).decode("ascii").strip()
        except OSError as error:
            raise InvalidInput(f"token_file {self.token_file} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            text = ""
        if not TOKEN.fullmatch(text):
            raise InvalidInput(
                f"token_file {self.token_file} does not hold a token; write the output of "
                "`cbir admin token create` to it"
            )
        return text


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

Keys = Annotated[Words, Field(max_length=16)]


class CardLabels(BaseModel):
    """Keys of the labels that a card shows: of several the first that an image has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    finding: Keys = ("finding", "diagnosis", "label")
    modality: Keys = ("modality",)
    body_part: Keys = ("body_part", "anatomy")
    age: Keys = ("age",)
    sex: Keys = ("sex",)
    year: Keys = ("year", "study_year")
    series_description: Keys = ("series_description",)


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
