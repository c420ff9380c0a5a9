"""HTTP client of the service and the models of its messages."""

from typing import TYPE_CHECKING, Any

from cbir.system.remedies import missing_package

if TYPE_CHECKING:
    from service.client.http_client import Client, ServiceError, ServiceUnreachable

__all__ = ["Client", "ServiceError", "ServiceUnreachable"]


def __getattr__(name: str) -> Any:
    """Import the client when it is used: the service needs the messages only, and httpx is an extra."""
    if name in __all__:
        try:
            from service.client import http_client
        except ModuleNotFoundError as error:
            if advice := missing_package(error):
                raise ModuleNotFoundError(advice, name=error.name) from error
            raise
        return getattr(http_client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
