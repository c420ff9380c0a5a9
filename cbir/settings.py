"""Settings: command-line options, then environment variables CBIR_*, then the file cbir.toml, then defaults."""

import os
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from cbir.addresses import validate_http_url, validate_origin, validate_viewer_template
from cbir.errors import InvalidInput


def settings_file() -> Path:
    """The settings file: CBIR_CONFIG, which must exist then, else cbir.toml in the working folder."""
    named = os.environ.get("CBIR_CONFIG")
    if named and not Path(named).is_file():
        raise InvalidInput(f"CBIR_CONFIG names {named}, which is no file")
    return Path(named or "cbir.toml")


def _state_folder() -> Path:
    """Where the XDG base directory specification puts what a program keeps."""
    return Path(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")) / "cbir"


def _words(value: Any) -> Any:
    """A list from its form in the environment, with commas between."""
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value


def _networks(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(ip_network(word)) for word in words)


def _origins(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(validate_origin, words))


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words)]
Networks = Annotated[Words, AfterValidator(_networks)]
Origins = Annotated[Words, AfterValidator(_origins)]
WebAddress = Annotated[str, AfterValidator(validate_http_url)]
ViewerTemplate = Annotated[str, AfterValidator(validate_viewer_template)]


class Settings(BaseSettings):
    """What an operator may decide. `cbir config` prints what is in force and where it came from."""

    model_config = SettingsConfigDict(env_prefix="CBIR_", extra="forbid", frozen=True)

    host: str = Field("127.0.0.1", description="address the service listens on")
    port: int = Field(8000, ge=0, le=65535, description="port the service listens on")
    threads: int = Field(8, ge=1, le=256, description="requests answered side by side")
    queue: int = Field(64, ge=0, description="requests that may wait for a thread; more are refused with 429")
    request_seconds: float = Field(60, gt=0, description="time for a request, its body and answer included")
    max_upload_bytes: int = Field(64 * 2**20, ge=1, description="size of a query image over HTTP")
    max_pixels: int = Field(100_000_000, ge=1, description="pixels of one frame; larger images are refused")
    max_results: int = Field(1000, ge=1, description="greatest k of a search over HTTP")
    rerank: str = Field("auto", description="re-ranking of a search that names none; auto: the best there is")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="where large collections are re-ranked; auto: on a GPU where there is one"
    )
    index: Literal["exact", "flat", "ivf"] = Field(
        "exact", description="how the nearest are found for re-rankers of the top; flat, ivf: by FAISS"
    )
    keep_originals: bool = Field(
        False, description="whether files sent to a collection are kept; else only thumbnails"
    )
    store_thumbnails: bool = Field(
        True,
        description="whether small pictures of images that are sent are kept; else the archive's are shown",
    )
    archive_url: WebAddress | None = Field(
        None, description="archive's DICOMweb service, before /studies: for links, thumbnails and reports"
    )
    archive_public_url: WebAddress | None = Field(
        None, description="the same as clients reach it, for links; unset: archive_url"
    )
    viewer_link: ViewerTemplate | None = Field(
        None, description="address of a study in a viewer, with {study}, {series}, {instance}, {frame} in it"
    )
    frame_origins: Origins = Field((), description="origins whose pages may frame /similar; empty: none may")
    index_roots: Words = Field((), description="folders below which jobs may index; empty: none may")
    exact_limit: int = Field(
        2_000_000, ge=1, description="images up to which the whole collection is re-ranked"
    )
    candidates: int = Field(
        50_000, ge=1, description="best images re-ranked in a larger one, with a sample as large"
    )
    require_tokens: bool | None = Field(
        None, description="whether every request needs a token; unset: unless only this machine can ask"
    )
    state_folder: Path = Field(
        default_factory=_state_folder, description="folder of tokens and audit log, its owner's alone"
    )
    allowed_hosts: Words = Field((), description="names other than localhost that the service is asked under")
    trusted_proxies: Networks = Field(
        (), description="addresses or networks of proxies whose X-Forwarded-* headers are believed"
    )
    tls_certificate: Path | None = Field(None, description="PEM file of the certificate chain for https")
    tls_key: Path | None = Field(None, description="PEM file of the certificate's private key")
    failed_attempts: int = Field(10, ge=1, description="wrong tokens from one address before it must wait")
    failed_attempts_seconds: int = Field(300, ge=1, description="time in which they count, and of the wait")
    audit_log: Path | None = Field(
        None, description="file of who did what; unset: audit.jsonl in state_folder where tokens are needed"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, settings_file())


def load(**options: Any) -> Settings:
    """The settings in force; options that are None were not given. Raises InvalidInput for values that do not fit."""
    try:
        return Settings(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"setting {name}: {first['msg']} (see `cbir config`)") from error
    except ValueError as error:  # the TOML reader's own
        raise InvalidInput(f"{settings_file()} cannot be read: {error}") from error


def setting_origins() -> dict[str, str]:
    """Where each setting comes from: "environment", the settings file, or "default"."""
    in_file = TomlConfigSettingsSource(Settings, settings_file())()
    places = {}
    for name in Settings.model_fields:
        if f"CBIR_{name.upper()}" in os.environ:
            places[name] = "environment"
        else:
            places[name] = str(settings_file()) if name in in_file else "default"
    return places
