"""Settings of logins by the hospital's identity that cannot work."""

from pathlib import Path
from typing import Any

import pytest

from cbir import settings
from cbir.errors import InvalidInput
from service.access.security import check_startup

PROXY = "10.0.0.1"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"proxy_user_header": "X-User"}, "trusted_proxies"),
        ({"proxy_groups_header": "X-Groups"}, "proxy_user_header"),
        ({"proxy_user_header": "X-User", "trusted_proxies": (PROXY,)}, "groups"),
        (
            {"proxy_user_header": "X-User", "trusted_proxies": (PROXY,), "require_tokens": False},
            "require_tokens",
        ),
        (
            {"proxy_user_header": "X-User", "trusted_proxies": (PROXY,), "groups": {"a": {"scopes": []}}},
            "scopes",
        ),
        (
            {
                "proxy_user_header": "X-User",
                "trusted_proxies": (PROXY,),
                "groups": {"a": {"scopes": ["search"], "where": ["x"]}},
            },
            "groups.a.where",
        ),
    ],
)
def test_settings_that_cannot_work(state: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        check_startup(settings.load(state_folder=state, **options))


def test_settings_that_are_no_names(state: Path) -> None:
    for name in ("Cookie", "X User", "", "host", "X_User:"):
        with pytest.raises(InvalidInput, match="proxy_user_header"):
            settings.load(proxy_user_header=name)
    with pytest.raises(InvalidInput, match="where"):
        settings.load(groups={"a": {"scopes": ["ingest"], "where": ["site=A"]}})
