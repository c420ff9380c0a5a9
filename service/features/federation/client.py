"""Client methods that services use between each other."""

from collections.abc import Mapping
from typing import Any

from cbir.store.records.filter_conditions import LabelConditions, write_conditions
from service.client.connection import ServiceConnection
from service.features.federation.site_messages import FederatedReply, SiteProfile


class FederationMethods(ServiceConnection):
    """Mixin with the methods of `service.client.Client` that need the scope `federate`."""

    def federation_profile(self) -> SiteProfile:
        """Return what the service compares before it takes a vector, and what its answers contain."""
        return self._fetch(
            SiteProfile,
            "GET",
            "/v1/federation/profile",
            **self._as_parameter(),
        )

    def federation_search(
        self,
        vector: Any,
        *,
        profile_hash: str,
        transform: str,
        k: int = 20,
        where: LabelConditions = (),
        rerank: str = "none",
        parameters: Mapping[str, float | str] | None = None,
    ) -> FederatedReply:
        """Search with a vector that another service has computed.

        Parameters
        ----------
        vector : (d,) array-like
            Raw values of the descriptor.
        profile_hash, transform : str
            Of the `federation_profile` that the vector agrees with.
        k : int
            Number of results.
        where : str, Condition or sequence of them
            Conditions on labels that the service shares.
        rerank : str
            Re-ranker; none by default.
        parameters : mapping, optional
            Its parameters.
        """
        body = {
            "vector": [float(value) for value in vector],
            "profile_hash": profile_hash,
            "transform": transform,
            "k": k,
            "where": write_conditions(where),
            "rerank": rerank,
            "parameters": dict(parameters or {}),
        }
        return self._fetch(
            FederatedReply,
            "POST",
            "/v1/federation/search",
            json=body,
            **self._as_parameter(),
        )
