"""Ask several sites at a time, and report about each."""

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cbir.errors import InvalidInput
from cbir.system.remote_site import RemoteSite
from service.collections.app_state import AppState
from service.features.federation.bounded_request import SiteFailed
from service.features.federation.exchange.reply_checks import CheckedReply
from service.features.federation.exchange.site_messages import SiteProfile
from service.features.federation.site_client import SiteClient, SiteQuery

MOST_THREADS = 64  # each site of a search has one; beyond that some wait for others
log = logging.getLogger(__name__)


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
    clients: Sequence[SiteClient], query: SiteQuery, own_profile: SiteProfile, sent: list[str]
) -> list[SiteOutcome]:
    """Ask sites at the same time; each ends within its own time limits.

    Parameters
    ----------
    clients : sequence of SiteClient
        Sites to ask.
    query : SiteQuery
        What to ask them.
    own_profile : SiteProfile
        Profile of the collection that the vector was computed for.
    sent : list of str
        What leaves this site is added to it before it does, for the audit log.
    """
    with ThreadPoolExecutor(min(len(clients), MOST_THREADS), thread_name_prefix="site") as threads:
        return list(threads.map(lambda client: _ask(client, query, own_profile, sent), clients))


def _ask(client: SiteClient, query: SiteQuery, own_profile: SiteProfile, sent: list[str]) -> SiteOutcome:
    started = time.monotonic()
    reply, problem = None, ""
    try:
        their_profile = client.agree(own_profile)
        sent.append(f"vector to {client.name}")
        reply = client.search(query, their_profile)
    except (SiteFailed, InvalidInput) as error:
        problem = str(error)
    except Exception:  # nothing that a site answers may end the search of others
        log.exception("the answer of the site %s could not be read", client.name)
        problem = "its answer could not be read; the log of this service says why"
    return SiteOutcome(client.name, reply, problem, (time.monotonic() - started) * 1000)
