"""Session with an XNAT server: login and logout, listings and files of bounded size, one line for each failure."""

import atexit
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

import httpx

from cbir.errors import XnatFailed, XnatSilent

USER, PASSWORD = "CBIR_XNAT_USER", "CBIR_XNAT_PASSWORD"
LISTING_BYTES = 64 * 2**20
LOGIN_BYTES = 2**20  # for the answer to a login: a number, or an error page
CHUNK_BYTES = 64 * 2**10
SECONDS = 60.0  # for a connection, and between two parts of an answer
ANSWER_SECONDS = 600.0  # for a whole answer
TRIES = 4
PAUSE_SECONDS = 1.0  # before the second try, and twice as long before each further one
OVERLOADED = (408, 429, 503)
REPEATED = (*OVERLOADED, 500, 502, 504)
JSESSION = "/data/JSESSION"


class XnatSession:
    """Session of one user with the server at `url`, begun with the first request. Thread-safe.

    The password is sent once, to log in; later requests carry the cookie JSESSIONID. Redirects are not followed:
    credentials are for the configured server. Without a user, requests are those of a guest.
    """

    def __init__(self, url: str, user: str = "", password: str = "") -> None:
        self.url = url
        self._credentials = (user, password) if user else None
        self._client = httpx.Client(  # no proxy, no ~/.netrc; nothing compressed, whose size nobody knows
            timeout=SECONDS, trust_env=False, headers={"Accept-Encoding": "identity"}
        )
        self._lock = Lock()
        self._logins = 0
        atexit.register(self.close)

    def list(self, path: str, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Return the rows of a listing, with certain columns if any are named.

        Raises
        ------
        FileNotFoundError
            If there is no such thing, or the user may not see it.
        XnatFailed
            If the answer is no listing, or not all of it.
        """
        query = "?format=json" + (f"&columns={','.join(columns)}" if columns else "")
        response = self._get(path + query, LISTING_BYTES)
        try:
            result = response.json()["ResultSet"]
            rows = [dict(row) for row in result["Result"]]
            total = int(result.get("totalRecords") or len(rows))
        except (ValueError, KeyError, TypeError, AttributeError):
            kind = response.headers.get("Content-Type", "no content type").partition(";")[0][:40]
            raise XnatFailed(
                f"{self.url} is not an XNAT server: a listing came as {kind}; xnat_url ends before /data"
            ) from None
        if total > len(rows):
            raise XnatFailed(f"{self.url} lists only {len(rows)} of {total} entries")
        return rows

    def read(self, path: str, most: int) -> bytes:
        """Return the first `most` bytes of a file; raises FileNotFoundError and XnatFailed."""
        return self._get(path, most, cut=True).content

    def close(self) -> None:
        """Log out, if logged in, and close the connections."""
        atexit.unregister(self.close)
        if "JSESSIONID" in self._client.cookies and not self._client.is_closed:
            with suppress(httpx.HTTPError):
                self._client.delete(self.url + JSESSION, timeout=5.0)
        self._client.close()

    def _get(self, path: str, most: int, cut: bool = False) -> httpx.Response:
        """Return the answer to a request, which logs in first, or again where the session has ended."""
        logins = self._log_in()
        response = self._repeat(lambda: self._fetch("GET", path, most, cut))
        if response.status_code in (401, 403) and self._credentials:
            self._log_in(logins)
            response = self._repeat(lambda: self._fetch("GET", path, most, cut))
        if response.status_code == 404:
            raise FileNotFoundError(path)
        self._check(response)
        return response

    def _log_in(self, ended: int = 0) -> int:
        """Log in unless another thread has since login number `ended`; return the number of logins."""
        with self._lock:
            if self._credentials and self._logins == ended:
                self._client.cookies.clear()
                login = httpx.BasicAuth(*self._credentials)
                self._check(self._repeat(lambda: self._fetch("POST", JSESSION, LOGIN_BYTES, auth=login)))
                self._logins += 1
            return self._logins

    def _fetch(
        self, method: str, path: str, most: int, cut: bool = False, auth: httpx.Auth | None = None
    ) -> httpx.Response:
        """Return an answer of at most `most` bytes: cut off there, or refused if it is larger.

        Parameters
        ----------
        method, path : str
        most : int
            Largest answer, in bytes.
        cut : bool
            Return the beginning of a larger answer.
        auth : httpx.Auth, optional
            Credentials.
        """
        ends = time.monotonic() + ANSWER_SECONDS
        content = bytearray()
        with self._client.stream(method, self.url + path, auth=auth) as response:
            for part in response.iter_raw(CHUNK_BYTES):
                content += part
                if len(content) > most:
                    break
                if time.monotonic() > ends:
                    raise httpx.ReadTimeout("the answer takes too long")
        if len(content) > most and not cut:
            raise XnatFailed(f"{self.url} sends more than {most} bytes where a listing was expected")
        headers = {
            name: response.headers[name] for name in ("Content-Type", "Location") if name in response.headers
        }
        return httpx.Response(response.status_code, headers=headers, content=bytes(content[:most]))

    def _repeat(self, request: Callable[[], httpx.Response]) -> httpx.Response:
        """Return the server's answer; try again while it is down or overloaded. Raises XnatSilent."""
        reason, status = "", 0
        for attempt in range(TRIES):
            if attempt:
                time.sleep(PAUSE_SECONDS * 2 ** (attempt - 1))
            try:
                response = request()
            except httpx.TimeoutException:
                reason = "it takes too long"
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                is_tls = "CERTIFICATE" in str(error).upper()
                reason = "its certificate is not trusted" if is_tls else "the connection was refused or cut"
            else:
                if response.status_code not in REPEATED:
                    return response
                status = response.status_code
                reason = f"it answered {status}"
        raise XnatSilent(
            f"the XNAT server {self.url} does not answer as it should: {reason}", status in OVERLOADED
        )

    def _check(self, response: httpx.Response) -> None:
        """Raise XnatFailed for an answer that is no success."""
        status = response.status_code
        if status == 401:
            raise XnatFailed(
                f"{self.url} refuses the credentials in the environment ({USER} and {PASSWORD})"
                if self._credentials
                else f"{self.url} wants credentials: set {USER} and {PASSWORD}, a password or an alias token"
            )
        if status == 403:
            raise XnatFailed(f"{self.url} does not let this user read that")
        if 300 <= status < 400:
            raise XnatFailed(
                f"{self.url} redirects elsewhere, which is not followed, because credentials are for the configured "
                "server only; set xnat_url to the address that it redirects to"
            )
        if not response.is_success:
            raise XnatFailed(f"{self.url} answered {status}: is it the address of an XNAT server?")
