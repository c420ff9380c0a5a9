"""HTTP sessions of `requests` that read answers of a bounded size only and follow no redirects."""

from typing import Any, TypeVar

import requests
from requests.adapters import HTTPAdapter

MAX_BYTES = 2**20
AnySession = TypeVar("AnySession", bound=requests.Session)


class BoundedAdapter(HTTPAdapter):
    """Reads answers of at most 1 MiB, without redirects."""

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request and read the answer; raises RequestException if it is too large, or a redirect."""
        response = super().send(request, *args, **{**kwargs, "stream": True})
        with response.raw:
            content = response.raw.read(MAX_BYTES + 1, decode_content=True)
        if len(content) > MAX_BYTES or response.is_redirect:
            raise requests.RequestException("the answer is a redirect, or too large", response=response)
        response._content = content
        response._content_consumed = True
        return response


def limit_answers(session: AnySession) -> AnySession:
    """Bound the answers that `session` reads, and return it."""
    for scheme in ("https://", "http://"):
        session.mount(scheme, BoundedAdapter())
    return session
