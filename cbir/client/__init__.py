"""HTTP client of the service and the models of its messages."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cbir.client.http_client import Client, ServiceError

__all__ = ["Client", "ServiceError"]


def __getattr__(name: str) -> Any:
    """Import the client when it is used: the service needs the messages only, and httpx is an extra."""
    if name in __all__:
        from cbir.client import http_client

        return getattr(http_client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
