"""Messages about the running of the service."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from cbir.search import example_values as example
from cbir.system.access_rights import Scope
from service.client.collection_messages import CollectionInfo

TOKEN_ID = "1a2b3c4d"


class TokenRequest(BaseModel):
    """Create a token."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"scopes": ["search"], "name": "reading room"}]}
    )

    scopes: list[Scope] = Field(description="Permissions of the token, at least one.", examples=[["search"]])
    name: str = Field(
        default="",
        description="Owner or purpose, shown in the list: at most 100 printable characters.",
        examples=["reading room"],
    )
    expires: str | None = Field(
        default=None,
        description="Expiry: 12h, 90d, 4w, a day like 2030-12-31 (until its end, UTC), or never; null for 90 days, "
        "or for as long as the token that creates it if that is shorter.",
        examples=["90d"],
    )
    collections: list[str] = Field(
        default=[],
        description="Names of the collections that it may use; empty for all.",
        examples=[["knees"]],
    )
    where: list[str] = Field(
        default=[],
        description="Conditions of the images that it may see; empty for all.",
        examples=[["site=A"]],
    )


class TokenInfo(BaseModel):
    """A token, without its secret."""

    token_id: str = Field(
        description="Id of the token, as audit log and history name it.", examples=[TOKEN_ID]
    )
    name: str = Field(description="Owner or purpose.", examples=["reading room"])
    state: str = Field(description='"valid", "expired" or "revoked".', examples=["valid"])
    scopes: list[Scope] = Field(description="Permissions.", examples=[["search"]])
    collections: list[str] = Field(
        description="Collections that it may use; empty: all of them.", examples=[["knees"]]
    )
    where: list[str] = Field(
        description="Conditions of the images that it may see; empty: all.", examples=[["site=A"]]
    )
    created: datetime = Field(description="When it was created.", examples=[example.TIME])
    expires: datetime | None = Field(description="When it expires; null for never.", examples=[example.TIME])
    revoked: datetime | None = Field(description="When it was revoked; null unless it was.")
    made_by: str | None = Field(
        default=None,
        description="Who created it over HTTP, as `token ID` or `user NAME`; null for the command line.",
        examples=[f"token {TOKEN_ID}"],
    )
    last_used: datetime | None = Field(
        description="When it was last used, to some minutes; null for never, or not since this is noted.",
        examples=[example.TIME],
    )


class TokenList(BaseModel):
    """All tokens, valid or not."""

    items: list[TokenInfo] = Field(description="Tokens, newest first.")


class NewToken(BaseModel):
    """A token that was created."""

    token: str = Field(
        description="Text to send as `Authorization: Bearer`; it is shown once and stored nowhere.",
        examples=[f"cbir_{TOKEN_ID}_SECRET"],
    )
    info: TokenInfo = Field(description="The token as the list shows it.")


class CollectionStatus(BaseModel):
    """A collection of the service and its state."""

    name: str = Field(description="Name of the collection.", examples=["knees"])
    folder: str | None = Field(
        description="Name of the folder that an alias leads to; null without an alias.",
        examples=["knees-2026-03"],
    )
    state: str = Field(description='"ready", or what is wrong with it.', examples=["ready"])
    info: CollectionInfo | None = Field(description="Facts about it; null if it cannot be opened.")
    changed: str | None = Field(
        description="When it was last changed, ISO 8601; null for never.", examples=[example.TIME]
    )


class CollectionStatusList(BaseModel):
    """Collections of the service."""

    items: list[CollectionStatus] = Field(description="Collections in the order of the command line.")


class RequestCount(BaseModel):
    """Number of requests of a day that did the same."""

    day: str = Field(description="Day of the requests, UTC.", examples=["2026-03-02"])
    action: str = Field(description="Action, as the audit log names it.", examples=["search"])
    method: str = Field(description="Re-ranking method of a search; else empty.", examples=["eprf"])
    outcome: str = Field(
        description='"done", "refused" (no access, or too many requests) or "failed".', examples=["done"]
    )
    count: int = Field(description="Number of requests.", examples=[120])


class RequestCounts(BaseModel):
    """Requests by day."""

    items: list[RequestCount] = Field(description="Counts, the newest day first.")


class ServicePart(BaseModel):
    """A part of the service."""

    name: str = Field(description="Name of the part.", examples=["audit log"])
    state: str = Field(description='"ok", "off", or what is wrong with it.', examples=["ok"])


class DiskSpace(BaseModel):
    """Disk of a folder that the service writes to."""

    folder: str = Field(description="Folder on that disk.", examples=["/var/lib/cbir"])
    free_bytes: int = Field(description="Bytes that are free.", examples=[64_000_000_000])
    total_bytes: int = Field(description="Size in bytes.", examples=[128_000_000_000])


class ServiceHealth(BaseModel):
    """Health of the service, its load and its versions."""

    parts: list[ServicePart] = Field(description="Parts and their states.")
    disks: list[DiskSpace] = Field(description="Disks of state folder and collections, each once.")
    memory_bytes: int | None = Field(
        description="Memory that the service uses; null where the system does not tell.",
        examples=[600_000_000],
    )
    started: datetime = Field(description="When the service started.", examples=[example.TIME])
    working: int = Field(description="Requests at work.", examples=[2])
    threads: int = Field(description="Requests that can be at work.", examples=[8])
    waiting: int = Field(description="Requests that wait for a thread.", examples=[0])
    queue: int = Field(description="Requests that may wait.", examples=[64])
    versions: dict[str, str] = Field(
        description="Versions of cbir, Python and the libraries it rests on.",
        examples=[{"cbir": "1.0.0", "python": "3.13.1"}],
    )


class SettingInfo(BaseModel):
    """A setting in force."""

    name: str = Field(description="Name of the setting.", examples=["threads"])
    value: str = Field(description="Value; passwords in addresses are hidden.", examples=["8"])
    origin: str = Field(
        description='"default", "environment", "command line" or the settings file.', examples=["default"]
    )
    description: str = Field(
        description="Meaning of the setting.", examples=["requests handled at the same time"]
    )


class SettingList(BaseModel):
    """The settings in force."""

    items: list[SettingInfo] = Field(description="Settings in the order of `cbir admin config`.")
