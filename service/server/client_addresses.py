"""Addresses of clients: which belong together, and which are those of proxies."""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import ip_network

from service.access.limiter import network_of
from service.access.proxies import parse_address


class ClientAddresses:
    """Networks of clients, and the proxies whose addresses are in `trusted`."""

    def __init__(self, trusted: Sequence[str]) -> None:
        self._trusted = [ip_network(network) for network in trusted]
        self.network = lru_cache(4096)(self._network)

    @staticmethod
    def _network(address: str) -> str:
        return network_of(str(parse_address(address) or ""))

    @staticmethod
    @lru_cache(4096)
    def site(network: str) -> str:
        """Return the /48 network that an IPv6 `network` belongs to: providers give a customer up to as many."""
        return str(ip_network(f"{network}/48", strict=False)) if ":" in network else network

    def is_proxy(self, address: str) -> bool:
        """Return True if `address` belongs to a trusted proxy, whose connections are those of many clients."""
        parsed = parse_address(address)
        return parsed is not None and any(parsed in network for network in self._trusted)
