"""Settings, in order of precedence: command-line options, environment CBIR_*, file cbir.toml, defaults."""

import os
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from cbir.errors import InvalidInput
from cbir.system import files
from cbir.system.access_rights import Rights
from cbir.system.remedies import close_name, did_you_mean
from cbir.system.setting_types import (
    CardLabels,
    CompareTemplate,
    HeaderName,
    IndexName,
    Issuer,
    Networks,
    Origins,
    RemoteSite,
    SiteName,
    StateAddress,
    ViewerTemplate,
    WebAddress,
    Words,
)

PREFIX = "CBIR_"  # of environment variables
OTHER_VARIABLES = (  # which are no settings, some of them since they are secrets
    "CBIR_COLLECTION",
    "CBIR_COLLECTION_PASSWORDS",
    "CBIR_CONFIG",
    "CBIR_DICOMWEB_PASSWORD",
    "CBIR_DICOMWEB_TOKEN",
    "CBIR_DICOMWEB_USER",
    "CBIR_TOKEN",
    "CBIR_XNAT_PASSWORD",
    "CBIR_XNAT_USER",
)


def settings_file() -> Path:
    """Return the path in CBIR_CONFIG, which must exist, else cbir.toml in the working directory."""
    path = os.environ.get("CBIR_CONFIG")
    if path and not Path(path).is_file():
        raise InvalidInput(f"CBIR_CONFIG: {path} is not a file")
    return Path(path or "cbir.toml")


class Settings(BaseSettings):
    """Settings of commands and service. `cbir admin config` prints their values and origins."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    host: str = Field("127.0.0.1", description="address the service listens on")
    port: int = Field(8000, ge=0, le=65535, description="port the service listens on")
    threads: int = Field(8, ge=1, le=256, description="requests handled at the same time")
    queue: int = Field(64, ge=0, description="requests that may wait for a thread; others get status 429")
    queue_seconds: float = Field(
        1, gt=0, description="expected wait for a thread from which requests get status 429"
    )
    request_seconds: float = Field(60, gt=0, description="time limit of a request, transfer included")
    query_seconds: float = Field(
        30, gt=0, description="time limit of a search from when it has a thread; longer ones are cancelled"
    )
    max_upload_bytes: int = Field(64 * 2**20, ge=1, description="maximum size of a query image over HTTP")
    upload_memory_bytes: int = Field(
        128 * 2**20,
        ge=1,
        description="memory for the uploads of all requests together; others get status 429",
    )
    max_pixels: int = Field(100_000_000, ge=1, description="pixels of a frame; larger images are refused")
    max_frame_bytes: int = Field(
        300_000_000, ge=1, description="width x height x channels x bytes per sample of a frame"
    )
    decoders: int = Field(2, ge=1, le=64, description="processes of the service that decode images")
    decoder_bytes: int = Field(
        512 * 2**20,
        ge=64 * 2**20,
        description="memory that decoding and describing an image may take besides four times its frame",
    )
    decode_seconds: float = Field(
        30, gt=0, description="time limit of the service for decoding and describing a frame"
    )
    index_decode_seconds: float = Field(
        60, gt=0, description="the same limit while indexing, crawling and receiving"
    )
    burned_in: Literal["accept", "refuse"] = Field(
        "accept", description="images to add that declare burned-in text (DICOM BurnedInAnnotation)"
    )
    intake: Literal["accept", "flag", "quarantine"] = Field(
        "accept",
        description="new images that are blank, damaged, unlike the collection, of another modality, or have "
        "text in their pixels: add them, add them with the label `intake`, or keep them out until they are released",
    )
    study_days: bool = Field(
        True,
        description="keep the days between a patient's studies, without their dates, of DICOM files that are added",
    )
    show_sources: bool = Field(
        False,
        description="name the file of each result over HTTP, as the command line does; paths may name patients",
    )
    pdf_font: Path | None = Field(
        None, description="TrueType font that is embedded in PDF files; unset: fonts of the PDF reader"
    )
    max_results: int = Field(1000, ge=1, description="maximum k of a search over HTTP")
    annotation_studies: Path | None = Field(
        None,
        description="folder of annotation studies, each in a folder of its own, that the service offers; unset: none",
    )
    usage_log: bool = Field(
        False,
        description="log which answers of the search page are opened and judged, without names of people",
    )
    usage_vectors: bool = Field(
        False, description="also log the vectors of uploaded images and of regions, which describe patients"
    )
    usage_days: int = Field(365, ge=1, description="days that a search stays in the usage log")
    usage_searches: int = Field(20_000, ge=1, description="searches in the usage log; the oldest are dropped")
    rerank: str = Field("auto", description="re-ranking of searches that name none; auto: the best available")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto",
        description="device that finds the nearest images, and describes many; auto: a GPU if there is one",
    )
    encoder_folder: Path = Field(
        default_factory=files.encoder_folder,
        description="folder of pretrained networks, see `cbir encoder`",
    )
    feature_folder: Path = Field(
        default_factory=files.feature_folder,
        description="folder of encoders' values of training images, see `cbir train`; may be deleted",
    )
    index: IndexName = Field(
        "auto",
        description="index of nearest images; flat: FAISS compares all vectors of the snapshot; ivf, hnsw, pgvector, "
        "milvus://host:port: a vector index, so that no process loads all; auto: flat up to exact_limit, then ivf",
    )
    index_password_file: Path | None = Field(
        None, description="file with the password of the Milvus server, or a token"
    )
    index_ca_file: Path | None = Field(
        None,
        description="certificates (PEM) of who signs that of the Milvus server; unset: public authorities",
    )
    keep_originals: bool = Field(False, description="store the files sent, not only thumbnails")
    store_thumbnails: bool = Field(True, description="store thumbnails; false: show the archive's")
    archive_url: WebAddress | None = Field(
        None, description="DICOMweb URL of the archive, without /studies; for links, thumbnails and reports"
    )
    archive_public_url: WebAddress | None = Field(
        None, description="the same URL as clients reach it, for links; unset: archive_url"
    )
    xnat_url: WebAddress | None = Field(
        None, description="address of the XNAT server that xnat:// sources name"
    )
    card_labels: CardLabels = Field(
        CardLabels(),
        description="labels that cards show, as [card_labels] with finding, modality, body_part, age, sex, year and "
        "series_description, each a list of keys of which the first that an image has counts",
    )
    viewer_link: ViewerTemplate | None = Field(
        None, description="URL of a study in a viewer, with {study}; also {series}, {instance}, {frame}"
    )
    compare_link: CompareTemplate | None = Field(
        None,
        description="URL of two studies side by side in a viewer, with {study} and {prior}; unset: made from "
        "viewer_link if that is of OHIF",
    )
    frame_origins: Origins = Field((), description="origins whose pages may embed /similar; empty: none")
    annotation_folder: Path | None = Field(
        None, description="folder for segmentations that MONAI Label's plugins send; unset: they are refused"
    )
    index_roots: Words = Field((), description="folders that jobs may index; empty: none")
    job_workers: int = Field(
        1, ge=0, description="jobs that the service runs at a time; 0: none, `cbir admin worker` runs them"
    )
    database_seconds: float = Field(
        10, gt=0, description="silence of PostgreSQL after which it is tested whether the server hangs"
    )
    exact_limit: int = Field(
        2_000_000,
        ge=1,
        description="largest collection that is read as a whole where there is a vector index",
    )
    indexed_candidates: int = Field(
        5000,
        ge=1,
        description="nearest images that are re-ranked; a list up to four times as long is re-ranked as a whole",
    )
    indexed_sample: int = Field(
        5000, ge=1, description="images of a sample that stand for the others in longer lists"
    )
    graph_limit: int = Field(
        2_000_000,
        ge=0,
        description="largest collection whose graph of neighbours is built in the background, and by commands other "
        "than cbir collection build-index; 0: no graph",
    )
    index_probes: int = Field(
        64, ge=1, description="lists that a search of inverted lists reads: more find more, and take longer"
    )
    require_tokens: bool | None = Field(
        None, description="require a token for every request; unset: unless the service listens on loopback"
    )
    state_folder: Path = Field(
        default_factory=files.state_folder,
        description="folder of tokens, audit log and state database",
    )
    state_database: StateAddress | None = Field(
        None,
        repr=False,  # it may have a password
        description="PostgreSQL database for the state, as postgresql+psycopg://user@host/database; unset: "
        "state.sqlite in state_folder",
    )
    state_database_password_file: Path | None = Field(
        None, description="file with the password of state_database; unset: that of the URL, or of libpq"
    )
    collection_files: Path | None = Field(
        None,
        description="folder for what collections in PostgreSQL keep in files: keys, originals, snapshots; several "
        "machines may share it; unset: collections in state_folder",
    )
    collection_password_file: Path | None = Field(
        None,
        description="file with the password of collections in PostgreSQL; unset: that of the address, or of libpq",
    )
    allowed_hosts: Words = Field((), description="host names of the service besides localhost")
    trusted_proxies: Networks = Field((), description="proxies whose X-Forwarded-* headers are trusted")
    tls_certificate: Path | None = Field(None, description="PEM file with the certificate chain for https")
    tls_key: Path | None = Field(None, description="PEM file with the private key")
    requests_per_minute: int = Field(
        20_000, ge=1, description="requests of one token or user per minute; others get status 429"
    )
    patients_per_hour: int = Field(
        1000, ge=1, description="different patients whose images one token without admin may add per hour"
    )
    identifiers_per_hour: int = Field(
        60,
        ge=1,
        description="patients that one caller may name per hour: by identifier, with the scope admin, or by a DICOM "
        "file in searches with same_patient",
    )
    groups: dict[str, Rights] = Field(
        {},
        description="rights of users by group, as [groups.NAME] with scopes, collections, where; first match",
    )
    sites: dict[SiteName, RemoteSite] = Field(
        {},
        description="other services that searches may ask, as [sites.NAME] with url, collection, token_file, "
        "certificate, key, ca, seconds",
    )
    federation_labels: Words = Field(
        (), max_length=64, description="keys of labels that answers to other services contain; empty: none"
    )
    federation_thumbnails: bool = Field(False, description="answers to other services contain thumbnails")
    federation_ids: bool = Field(
        False,
        description="they contain ids of images, which are hashes of the pixels; else names made up for each",
    )
    federation_results: int = Field(
        100, ge=1, le=1000, description="most results of an answer to another service"
    )
    federation_minimum: int = Field(
        10, ge=1, description="searches of other services among fewer images than this are refused"
    )
    federation_per_minute: int = Field(
        60, ge=1, description="searches of one other service per minute; others get status 429"
    )
    proxy_user_header: HeaderName | None = Field(
        None, description="header in which a trusted proxy names the user that it has authenticated"
    )
    proxy_groups_header: HeaderName | None = Field(
        None, description="header in which it lists the user's groups, separated by commas"
    )
    dicom_peers: Words = Field((), description="peers of cbir receive, as AETITLE@NETWORK; empty: any")
    dicom_commitment: Words = Field(
        (), description="where peers listen for storage commitment reports, as AETITLE=HOST:PORT"
    )
    dicom_tls_certificate: Path | None = Field(
        None, description="PEM file with the certificate chain of cbir receive; unset: no TLS"
    )
    dicom_tls_key: Path | None = Field(None, description="PEM file with its private key")
    dicom_tls_ca: Path | None = Field(
        None, description="PEM file of the authorities that sign the certificates peers must show"
    )
    oidc_issuer: Issuer | None = Field(
        None, description="URL of the OpenID Connect provider that users log in at; unset: tokens only"
    )
    oidc_client_id: str = Field("", description="id under which the provider knows this service")
    oidc_client_secret_file: Path | None = Field(
        None, description="file with the secret of this service at the provider; unset: a public client"
    )
    oidc_scopes: Words = Field(("openid", "profile"), description="scopes to request from the provider")
    oidc_user_claim: str = Field("preferred_username", description="claim that holds the user's name")
    oidc_groups_claim: str = Field("groups", description="claim that holds the user's groups")
    failed_attempts: int = Field(10, ge=1, description="wrong tokens from one address before it is blocked")
    failed_attempts_seconds: int = Field(
        300, ge=1, description="time window of failed_attempts; length of block"
    )
    audit_log: Literal["database"] | Path | None = Field(
        None,
        description="audit log file, or database: a table of state_database; unset: where tokens are required, that "
        "table if state_database is set, else audit.jsonl in state_folder",
    )
    audit_key_file: Path | None = Field(
        None,
        description="file with the key of an audit log in state_database; unset: audit.key in state_folder",
    )
    audit_log_days: int = Field(
        0, ge=0, description="days after which lines of an audit log in state_database are removed; 0: never"
    )
    audit_log_bytes: int = Field(
        64 * 2**20, ge=0, description="size at which the audit log is rotated; 0: never"
    )
    audit_failure: Literal["open", "closed"] = Field(
        "open", description="when the audit log cannot be written: open: answer all the same; closed: refuse"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        *_: Any,
        **__: Any,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = TomlConfigSettingsSource(settings_cls, settings_file())
        if _variables().isdisjoint(name.upper() for name in os.environ):
            return init_settings, file  # reading each setting's variable would take most of the time
        return init_settings, env_settings, file


def load(**options: Any) -> Settings:
    """Load the settings, overridden by `options` that are not None; raise InvalidInput for invalid values."""
    _check_environment()
    try:
        return Settings(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            advice = did_you_mean(name, Settings.model_fields)
            raise InvalidInput(
                f"there is no setting {name}{advice or ';'} `cbir admin config` prints all"
            ) from error
        raise InvalidInput(f"setting {name}: {first['msg']} (see `cbir admin config`)") from error
    except (ValueError, RecursionError) as error:  # of the TOML parser
        raise InvalidInput(f"{settings_file()} cannot be read: {error}") from error


@cache
def _variables() -> frozenset[str]:
    """Return the names of the settings' environment variables."""
    return frozenset(f"{PREFIX}{name.upper()}" for name in Settings.model_fields)


def _check_environment() -> None:
    """Raise InvalidInput for a variable that is a misspelt setting; other variables may be of other programs."""
    variables = _variables() | set(OTHER_VARIABLES)
    for variable in os.environ:
        if variable.startswith(PREFIX) and variable not in variables:
            close = close_name(variable.removeprefix(PREFIX).lower(), Settings.model_fields)
            if close:
                raise InvalidInput(
                    f"there is no setting {variable}; did you mean {PREFIX}{close.upper()}? "
                    "`cbir admin config` prints all"
                )
