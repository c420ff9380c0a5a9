"""Clients of other services, which ask several at a time and leave one alone that fails."""

import json
import logging
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from threading import BoundedSemaphore, Lock
from typing import Any
from urllib.parse import quote

from cbir.errors import InvalidInput
from cbir.gallery.vector_blocks import Floats
from cbir.rerank.simple_rerankers import NoReranking
from cbir.store.records.filter_conditions import Condition, parse_filter, parse_filters
from cbir.system.setting_types import RemoteSite
from service.collections.app_state import AppState
from service.features.federation.bounded_request import SiteFailed, SiteRequest, send
from service.features.federation.site_agreement import difference
from service.features.federation.site_messages import (
    REPLY_BYTES,
    AskedFor,
    CheckedReply,
    SiteProfile,
    UntrustedReply,
    check_reply,
    one_line,
    read_message,
)

FAILURES = 3  # in a row, after which a site is left alone
PAUSE_SECONDS = 30.0
PROFILE_PATH, SEARCH_PATH = "/v1/federation/profile", "/v1/federation/search"
PROFILE_SECONDS = 60.0  # that a profile is taken as known; a site refuses vectors of another one at any time
MAX_DETAIL = 200  # characters of a refusal that are shown
AT_A_TIME = 4  # requests to one site
MOST_THREADS = 64  # each site of a search has one; beyond that some wait for others

log = logging.getLogger(__name__)


class CircuitBreaker:
    """Counts the failures of one site. Thread-safe.

    Parameters
    ----------
    failures : int
        Failures in a row after which the site is left alone.
    pause : float
        Seconds until one request tries it again.
    clock : callable
        Monotonic clock in seconds.
    """

    def __init__(
        self,
        failures: int = FAILURES,
        pause: float = PAUSE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures, self._pause, self._clock = failures, pause, clock
        self._lock = Lock()
        self._count, self._until = 0, 0.0

    def seconds_to_wait(self) -> float:
        """Return 0 if the site may be asked now; of several callers after a pause, one gets it."""
        with self._lock:
            if self._count < self._failures:
                return 0.0
            remaining = self._until - self._clock()
            if remaining > 0:
                return remaining
            self._until = self._clock() + self._pause  # this request tries; others wait for how it ends
            return 0.0

    def record(self, answered: bool) -> None:
        """Note whether the site has answered."""
        with self._lock:
            self._count = 0 if answered else self._count + 1
            self._until = self._clock() + self._pause


@dataclass
class FederatedRequest:
    """Search for all sites: number of results, conditions, re-ranker and its parameters; raises InvalidInput.

    limits: conditions of the caller's rights, which hold for the images of other sites too. conditions: all of them,
    each of which a result must fulfil. where_and_limits: these as they are sent: of one label, `key=value` of `where`
    would widen that of the limits.
    """

    k: int
    where: list[str] = field(default_factory=list)
    rerank: str = NoReranking.name
    parameters: dict[str, Any] = field(default_factory=dict)
    limits: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = field(init=False)
    where_and_limits: list[str] = field(init=False)

    def __post_init__(self) -> None:
        """Parse the conditions once, before any site is asked."""
        limits = [parse_filter(limit) for limit in self.limits]
        self.conditions = (*limits, *parse_filters(self.where))
        fixed = {limit.key for limit in limits if limit.operator == "="}
        parsed = [(text, parse_filter(text)) for text in self.where]
        allowed = [text for text, each in parsed if each.operator != "=" or each.key not in fixed]
        self.where_and_limits = [*self.limits, *allowed]


class SiteClient:
    """Client of the site `name`. Thread-safe.

    A site that failed several times is left alone for a while, and has at most AT_A_TIME requests at a time.
    """

    def __init__(self, name: str, site: RemoteSite, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self.site = name, site
        self.circuit = CircuitBreaker(clock=clock)
        self._clock = clock
        self._lock = Lock()
        self._turns = BoundedSemaphore(AT_A_TIME)
        self._context: ssl.SSLContext | None = None
        self._known: tuple[SiteProfile, float] | None = None  # the profile, and until when

    def profile(self, fresh: bool = False) -> SiteProfile:
        """Return the site's profile, kept for a minute unless `fresh`; raises SiteFailed and InvalidInput."""
        remembered = self._known
        if remembered and self._clock() < remembered[1] and not fresh:
            return remembered[0]
        content = self._request("GET", PROFILE_PATH, REPLY_BYTES)
        profile: SiteProfile = self._trusted(lambda: read_message(content, SiteProfile))
        self._known = profile, self._clock() + PROFILE_SECONDS
        return profile

    def agree(self, own_profile: SiteProfile) -> SiteProfile:
        """Return the site's profile if it agrees with the one `own_profile`; raises SiteFailed and InvalidInput."""
        if wait := self.circuit.seconds_to_wait():
            raise SiteFailed(f"it failed several times and is left alone for {wait:.0f} seconds")
        their_profile = self.profile()
        if reason := difference(own_profile, their_profile):
            self._known = None
            raise SiteFailed(f"it differs: {reason}", refused=True)
        return their_profile

    def search(self, vector: Floats, request: FederatedRequest, their_profile: SiteProfile) -> CheckedReply:
        """Send the vector, and check what the site answers.

        Parameters
        ----------
        vector : (d,) float32
            Raw query vector.
        request : FederatedRequest
            The search.
        their_profile : SiteProfile
            Profile that the site agreed with.

        Raises
        ------
        SiteFailed
            If the site refuses, fails or answers something that cannot be used.
        InvalidInput
            If the files of the setting cannot be used.
        """
        k = min(request.k, their_profile.results)
        fields = {
            "vector": vector.astype(float).tolist(),
            "profile_hash": their_profile.profile_hash,
            "transform": their_profile.transform,
            "k": k,
            "where": request.where_and_limits,
            "rerank": request.rerank,
            "parameters": request.parameters,
        }
        question = AskedFor(their_profile, k, request.rerank, request.conditions)
        content = self._request("POST", SEARCH_PATH, question.most_bytes, json.dumps(fields).encode())
        reply: CheckedReply = self._trusted(lambda: check_reply(content, question))
        # Not before: a site may answer its profile, and hang later.
        self.circuit.record(answered=True)
        if k < request.k and len(reply.hits) == k:
            return replace(reply, notes=(*reply.notes, f"it answers at most {k} results"))
        return reply

    def _trusted(self, read: Callable[[], Any]) -> Any:
        """Return what `read` makes of an answer; one that cannot be used counts as a failure."""
        try:
            result = read()
        except UntrustedReply as error:
            self._known = None
            self.circuit.record(answered=False)
            raise SiteFailed(str(error)) from None
        return result

    def _request(self, method: str, path: str, most_bytes: int, body: bytes | None = None) -> bytes:
        headers = {"Accept": "application/json", "Connection": "close"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if token := self.site.read_token():
            headers["Authorization"] = f"Bearer {token}"
        if self.site.collection:
            path += f"?collection={quote(self.site.collection, safe='')}"
        request = SiteRequest(method, path, most_bytes, body, headers)
        context = self._tls() if self.site.url.startswith("https") else None
        if not self._turns.acquire(blocking=False):
            raise SiteFailed("it has not answered earlier requests yet")
        try:
            status, content = send(self.site.url, request, context, self.site.seconds)
        except SiteFailed:
            self.circuit.record(answered=False)
            raise
        finally:
            self._turns.release()
        if status != 200:
            if status >= 500:
                self.circuit.record(answered=False)
            self._known = None
            raise SiteFailed(f"it refuses ({status}){_detail(content)}", refused=status < 500)
        return content

    def _tls(self) -> ssl.SSLContext:
        """Return the TLS context, made once; raises InvalidInput for files that cannot be used."""
        with self._lock:
            if self._context is None:
                self._context = tls_context(self.name, self.site)
            return self._context


def tls_context(name: str, site: RemoteSite) -> ssl.SSLContext:
    """Return the TLS context for the site `name`, with this service's certificate; raises InvalidInput."""
    try:
        context = ssl.create_default_context(cafile=site.ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if site.certificate:
            # An empty password, so that an encrypted key raises an error instead of prompting.
            context.load_cert_chain(site.certificate, site.key, password="")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not PEM files that belong together"
        raise InvalidInput(f"sites.{name}: ca, certificate and key cannot be used: {reason}") from None
    return context


def _detail(content: bytes) -> str:
    """Return what a problem response (RFC 9457) says, shortened to one printable line."""
    try:
        detail = json.loads(content)["detail"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    if not isinstance(detail, str):
        return ""
    return f": {one_line(detail, MAX_DETAIL)}"


@dataclass(frozen=True)
class SiteOutcome:
    """Outcome of asking a site. reply: None if it gave no answer that can be used; problem: the reason."""

    name: str
    reply: CheckedReply | None
    problem: str
    milliseconds: float


class Sites:
    """The other sites of the settings, in their order. Thread-safe."""

    def __init__(self, sites: Mapping[str, RemoteSite]) -> None:
        self.clients = {name: SiteClient(name, site) for name, site in sites.items()}

    def choose(self, names: Sequence[str]) -> list[SiteClient]:
        """Return the clients of the sites `names`, all of them for none; raises InvalidInput for an unknown one."""
        if not self.clients:
            raise InvalidInput(
                "sites: this service knows no other; name them in its settings as [sites.NAME]"
            )
        for name in names:
            if name not in self.clients:
                raise InvalidInput(f"sites: there is no {name}; there are: {', '.join(self.clients)}")
        return [client for name, client in self.clients.items() if not names or name in names]


def sites_of_service(state: AppState) -> Sites:
    """Return the other sites of a service, as a part of its state."""
    return Sites(state.settings.sites)


def ask_sites(
    clients: Sequence[SiteClient],
    vector: Floats,
    request: FederatedRequest,
    own_profile: SiteProfile,
    sent: list[str],
) -> list[SiteOutcome]:
    """Ask sites at the same time; each ends within its own time limits.

    Parameters
    ----------
    clients : sequence of SiteClient
        Sites to ask.
    vector : (d,) float32
        Raw query vector.
    request : FederatedRequest
        What to ask them.
    own_profile : SiteProfile
        Profile of the collection that the vector was computed for.
    sent : list of str
        What leaves this site is added to it before it does, for the audit log.
    """
    with ThreadPoolExecutor(min(len(clients), MOST_THREADS), thread_name_prefix="site") as threads:
        ask = partial(_ask, vector=vector, request=request, own_profile=own_profile, sent=sent)
        return list(threads.map(ask, clients))


def _ask(
    client: SiteClient, vector: Floats, request: FederatedRequest, own_profile: SiteProfile, sent: list[str]
) -> SiteOutcome:
    started = time.monotonic()
    reply, problem = None, ""
    try:
        their_profile = client.agree(own_profile)
        sent.append(f"vector to {client.name}")
        reply = client.search(vector, request, their_profile)
    except (SiteFailed, InvalidInput) as error:
        problem = str(error)
    except Exception:  # nothing that a site answers may end the search of others
        log.exception("the answer of the site %s could not be read", client.name)
        problem = "its answer could not be read; the log of this service says why"
    return SiteOutcome(client.name, reply, problem, (time.monotonic() - started) * 1000)
