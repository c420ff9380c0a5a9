"""Client methods for the map of a collection."""

from collections.abc import Sequence
from urllib.parse import quote

from service.client.connection import ServiceConnection
from service.features.map.messages import CollectionMap, MapLabels, MapPlaces


class MapMethods(ServiceConnection):
    """Mixin with the methods of `service.client.Client` for the map of a collection."""

    def map(self, limit: int | None = None) -> CollectionMap:
        """Return the places of the collection's images, at most `limit`; `state` says whether there is a map yet."""
        params = {} if limit is None else {"limit": limit}
        return self._fetch(CollectionMap, "GET", "/v1/map", params=params)

    def map_labels(self, key: str, limit: int | None = None) -> MapLabels:
        """Return the values of the label `key` of the images that `map` returns with the same `limit`."""
        params = {} if limit is None else {"limit": limit}
        return self._fetch(MapLabels, "GET", f"/v1/map/labels/{quote(key, safe='')}", params=params)

    def map_places(self, ids: Sequence[str]) -> MapPlaces:
        """Return the places of up to 1,000 images, and of an image that the first of them are nearest to."""
        return self._fetch(MapPlaces, "POST", "/v1/map/places", json={"ids": list(ids)})
