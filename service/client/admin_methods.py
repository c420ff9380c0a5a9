"""Client methods for administrators."""

from typing import TypedDict, Unpack
from urllib.parse import quote

from service.client.admin_messages import (
    CollectionStatus,
    CollectionStatusList,
    NewToken,
    RequestCount,
    RequestCounts,
    ServiceHealth,
    SettingInfo,
    SettingList,
    TokenInfo,
    TokenList,
)
from service.client.connection import ServiceConnection


class TokenOptions(TypedDict, total=False):
    """Options of a new token.

    name: owner or purpose. expires: 12h, 90d, 4w, a day like 2030-12-31, or never. collections: names of those
    that it may use, all by default. where: conditions of the images that it may see, all by default.
    """

    name: str
    expires: str
    collections: list[str]
    where: list[str]


class AdminMethods(ServiceConnection):
    """Mixin with the methods of `service.client.Client` that need the scope admin."""

    def tokens(self) -> list[TokenInfo]:
        """Return all tokens, newest first, without their secrets."""
        return self._fetch(TokenList, "GET", "/v1/admin/tokens", with_collection=False).items

    def create_token(self, scopes: list[str], **options: Unpack[TokenOptions]) -> NewToken:
        """Create a token with `scopes`; its text cannot be shown again. See `TokenOptions`."""
        body = {"scopes": scopes, **options}
        return self._fetch(NewToken, "POST", "/v1/admin/tokens", with_collection=False, json=body)

    def revoke_token(self, token_id: str, *, with_made: bool = False) -> TokenInfo:
        """Revoke a token at once, and end all logins made with it; `with_made`: also the tokens that it has made."""
        path = f"/v1/admin/tokens/{quote(token_id, safe='')}/revoke"
        params = {"with_made": "true"} if with_made else {}
        return self._fetch(TokenInfo, "POST", path, with_collection=False, params=params)

    def collection_states(self) -> list[CollectionStatus]:
        """Return all collections of the service, their facts and states."""
        path = "/v1/admin/collections"
        return self._fetch(CollectionStatusList, "GET", path, with_collection=False).items

    def request_history(self, *, days: int = 30) -> list[RequestCount]:
        """Return how many requests did what, by day, for the last `days` days."""
        params = {"days": days}
        path = "/v1/admin/requests"
        return self._fetch(RequestCounts, "GET", path, with_collection=False, params=params).items

    def service_health(self) -> ServiceHealth:
        """Return the states of the service's parts, disks, memory, queue and versions."""
        return self._fetch(ServiceHealth, "GET", "/v1/admin/health", with_collection=False)

    def settings(self) -> list[SettingInfo]:
        """Return the settings in force and their origins."""
        return self._fetch(SettingList, "GET", "/v1/admin/settings", with_collection=False).items
