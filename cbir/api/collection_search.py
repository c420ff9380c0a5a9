"""Searches in an open collection."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from cbir import settings
from cbir.api.collection_images import Cohort, CollectionImages
from cbir.api.query_input import explain_result, read_example, read_region, read_region_query, require_id
from cbir.descriptors.network_descriptors import volume_grid
from cbir.errors import CbirError, InvalidInput
from cbir.images import Image, Region
from cbir.ingest.query_file import WHOLE_FILE, QueryOptions
from cbir.search import Request, Searcher, Stopwatch
from cbir.search.answer import Hits
from cbir.search.explanation import Explanation
from cbir.search.prior_studies import PriorOrder, PriorRequest, PriorStudies, find_priors
from cbir.search.query_parts import check_profile
from cbir.search.search_options import (
    REQUEST_VALUES,
    SearchOptions,
    check_names,
    check_queries,
    list_examples,
    list_judgements,
    query_and_options,
)
from cbir.settings import Settings
from cbir.store.records.filter_conditions import LabelConditions, list_conditions


class OpenCollection(CollectionImages):
    """A collection to search in, as `cbir.open` returns it. Thread-safe; a context manager."""

    def __init__(self, folder: str | os.PathLike[str], in_force: Settings) -> None:
        super().__init__(folder, in_force)
        self._searcher = Searcher(self.collection, self.settings)

    def search(self, query: Any = None, **options: Unpack[SearchOptions]) -> Hits:
        """Search for images similar to one or several examples, or by text or vector.

        Parameters
        ----------
        query : str, path-like, bytes, array, Image or sequence of them
            File, content of a file, samples (`cbir.images.from_array`), or image id; "id:ID" where a file has the
            name of an id. Several are one query.
        **options
            k, where, rerank, group_by, vector, text, ...: see `cbir.SearchOptions`.

        Raises
        ------
        NotFound
            For a query that is neither a file nor an image of the collection.
        UnreadableImage
            For a file or array that is no image.
        InvalidInput
            For options that do not fit the query or the collection.
        """
        check_names(options)
        if options.get("anywhere"):
            return self._search_anywhere(query, options)
        images: list[Image] = []
        ids: list[str] = []
        part = QueryOptions(options.get("frame"), options.get("region"), options.get("window"))
        for example in list_examples(query):
            image_id = require_id(example, self.collection)
            if image_id is None:
                images.append(self.read(example, part))
            elif part.names():
                images.append(self.read_part(image_id, part))
            else:
                ids.append(image_id)
        if part.names() and query is None:
            raise InvalidInput(
                f"{part.names()[0]}: is for a query image; leave it out with examples, vector or text"
            )
        request = request_of(options, ids)
        vectors = options.get("vector")
        check_profile(options.get("profile"), vectors, self.collection.profile)
        return self.answer(images, request, options.get("text"), vectors)

    def _search_anywhere(self, query: Any, options: SearchOptions) -> Hits:
        if options.get("text") is not None or options.get("vector") is not None:
            raise InvalidInput("anywhere: is for a region of an image, without text and vector")
        part = QueryOptions(options.get("frame"), None, options.get("window"))
        return self.answer_region(query, options.get("region"), request_of(options), part)

    def answer_region(
        self, query: Any, region: Region | None, request: Request, part: QueryOptions = WHOLE_FILE
    ) -> Hits:
        """Search for images with a like region anywhere.

        Parameters
        ----------
        query : str, path-like, bytes, array or Image
            What `search` takes as a single query image.
        region : (int, int, int, int) or None
            Part of it: x, y, width, height in pixels.
        request : Request
            Parameters of the search, without examples and judgements.
        part : QueryOptions
            Frame and window of a file.
        """
        watch = Stopwatch()
        described = read_region_query(self, query, region, part)
        watch.lap("decode")
        answer = self._searcher.by_region(described, request, watch)
        return answer.with_pictures(self.thumbnail)

    def search_batch(
        self, queries: Sequence[Any], **options: Unpack[SearchOptions]
    ) -> list[Hits | CbirError]:
        """Search with each of several queries by itself.

        Parameters
        ----------
        queries : sequence
            What `search` takes as query; or mappings of "query" and of options that the query has in place of the
            common ones, for example {"vector": values, "k": 5}.
        **options
            See `cbir.SearchOptions`.

        Returns
        -------
        list of Hits or CbirError
            In the order of the queries; an error in place of the hits of a query that cannot be searched with.
        """
        check_queries(queries)
        check_names(options)
        return [self._try_search(*query_and_options(query, options)) for query in queries]

    def _try_search(self, query: Any, options: SearchOptions) -> Hits | CbirError:
        try:
            return self.search(query, **options)
        except CbirError as error:
            return error

    def cohort(
        self, relevant: Sequence[str], irrelevant: Sequence[str] = (), where: LabelConditions = ()
    ) -> Cohort:
        """Begin a cohort: find all images of a kind in rounds of judgements.

        Parameters
        ----------
        relevant, irrelevant : sequence of str
            Ids of images that belong to it, at least one, and of others that do not.
        where : str, Condition or sequence of them
            Conditions on labels of the images that are searched.

        Raises
        ------
        NotFound
            For an image that the collection does not have.

        Examples
        --------
        >>> cohort = db.cohort([image_id])
        >>> while cohort.missing().advice != "complete":
        ...     cohort.judge({image.image_id: look_at(image) for image in cohort.next()})
        """
        judged = dict.fromkeys(relevant, True) | dict.fromkeys(irrelevant, False)
        return Cohort(self._searcher, judged, list_conditions(where))

    def priors(
        self,
        image_id: str,
        *,
        order: str = "likeness",
        images: int = 4,
        limit: int = 10,
        where: LabelConditions = (),
    ) -> PriorStudies:
        """Return the other studies of the patient of an image, those of the same view first.

        Parameters
        ----------
        image_id : str
            Id of the image.
        order : str
            "likeness", or "time", the nearest first.
        images, limit : int
            Most images of a study, and most studies.
        where : str, Condition or sequence of them
            Label conditions; all must hold.

        Raises
        ------
        NotFound
            If there is no such image.
        InvalidInput
            For another order, or a condition that cannot be read.
        """
        if order not in [*PriorOrder]:
            raise InvalidInput(f"order: {order!r} is not one of {', '.join(PriorOrder)}")
        request = PriorRequest(PriorOrder(order), images, limit, list_conditions(where))
        return find_priors(self._searcher, image_id, request)

    def explain(self, query: Any, image_id: str, **options: Any) -> Explanation:
        """Explain why an image is similar to a query: by places that match, or by the parts of the descriptor.

        Parameters
        ----------
        query : str, path-like, bytes, array or Image
            What `search` takes as a single query image.
        image_id : str
            Id of the result.
        **options
            frame, region, window: as of `search`.

        Returns
        -------
        Explanation
            maps.query and maps.answer (rows, columns) from 0 to 1 for an encoder; shares, query_edges and
            answer_edges (4, 4, 5) for a descriptor of several parts, such as huang2012.

        Raises
        ------
        InvalidInput
            If the collection's profile has no explanation, as trained embeddings.
        NotFound
            For an unknown image, and one without file and thumbnail.
        """
        try:
            part = QueryOptions(**options)
        except TypeError:
            raise InvalidInput("explain takes frame, region and window as options") from None
        return explain_result(self, query, image_id, replace(part, region=None), part.region)

    def answer(
        self, images: Sequence[Image], request: Request, text: str | None = None, vectors: Any = None
    ) -> Hits:
        """Search with images, vectors and the examples of a request, or by text.

        Parameters
        ----------
        images : sequence of Image
            Query images from outside.
        request : Request
            Parameters of the search, with ids of further examples.
        text : str, optional
            Words to search with instead of images.
        vectors : (d,) or (v, d) array-like, optional
            Raw values of the collection's descriptor.
        """
        watch = Stopwatch()
        if text is None:
            answer = self._searcher.by_examples(images, request, watch, vectors)
        elif images or vectors is not None:
            raise InvalidInput("text: search with it or with images or vectors")
        else:
            answer = self._searcher.by_text(text, request, watch)
        return answer.with_pictures(self.thumbnail)

    def read(self, example: Any, part: QueryOptions = WHOLE_FILE) -> Image:
        """Read an image as a search does, or a series in a collection of CT series.

        Parameters
        ----------
        example : str, path-like, bytes, array or Image
            See `search`; not an image id.
        part : QueryOptions
            Frame, region and window.
        """
        return read_example(example, self.limits, volume_grid(self.collection.profile.descriptor), part)

    def read_part(self, image_id: str, part: QueryOptions) -> Image:
        """Return a region of an image of the collection; it is searched with as it was indexed, its frame and window.

        `image_id`, `part`: image and region. Raises NotFound if its file is gone or shows another image.
        """
        if part.region is None or part.frame is not None or part.window is not None:
            raise InvalidInput("frame, window: only of a file; an image of the collection has its own")
        return read_region(image_id, part.region, self.collection, self.limits)

    def describe(self, image: Any, part: QueryOptions = WHOLE_FILE) -> NDArray[np.float32]:
        """Return the raw vector (d,) float32 of an `image`, or of a `part`, by the collection's profile."""
        descriptor = self.profile.load_descriptor(self.settings.device)
        return np.asarray(descriptor(self.read(image, part)), np.float32)


def request_of(options: SearchOptions, ids: Sequence[str] = ()) -> Request:
    """Return the request of the options of a search; `ids`: of query images of the collection."""
    if options.get("federated") or options.get("sites"):
        raise InvalidInput(
            "federated: a collection asks no other sites; ask a service, or `cbir admin federate search`"
        )
    if options.get("include") or options.get("origin"):
        raise InvalidInput("include, origin: are for searches over HTTP; leave them out")
    values = {name: value for name, value in options.items() if name in REQUEST_VALUES}
    return build_request(
        **{name: value for name, value in values.items() if value is not None},
        parameters=dict(options.get("parameters") or {}),
        where=list_conditions(options.get("where", ())),
        examples=[*ids, *options.get("examples", ())],
        feedback=list_judgements(options.get("feedback")),
    )


def build_request(**values: Any) -> Request:
    """Return a request; raise InvalidInput, which names the value, for one out of bounds."""
    try:
        return Request(**values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise InvalidInput(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def search(query: Any, collection: str | os.PathLike[str], **options: Unpack[SearchOptions]) -> Hits:
    """Search in a collection once: open it, search, and close it.

    For several searches, keep it open: `cbir.open(collection)`.

    Parameters
    ----------
    query : str, path-like, bytes, array, Image or sequence of them
        What `OpenCollection.search` takes; None to search with the options text or vector.
    collection : str or path-like
        Folder of the collection, its alias, or its address in PostgreSQL.
    **options
        k, where, rerank, group_by, vector, text, ...: see `cbir.SearchOptions`.

    Raises
    ------
    NotFound
        If there is no collection, or for a query that is neither a file nor an image of it.
    UnreadableImage
        For a file or array that is no image.
    InvalidInput
        For options that do not fit the query or the collection.

    Examples
    --------
    >>> hits = cbir.search("query.dcm", collection="hospital", k=5)
    """
    with open(collection) as opened:
        return opened.search(query, **options)


def open(folder: str | os.PathLike[str], **options: Any) -> OpenCollection:
    """Open a collection to search in.

    Parameters
    ----------
    folder : str or path-like
        Folder of the collection, its alias, or its address in PostgreSQL.
    **options
        Settings in place of those of cbir.toml and the environment (`cbir admin config` lists them), such as
        device="cpu".

    Raises
    ------
    NotFound
        If there is no collection.
    CollectionDamaged
        If it cannot be read.
    DatabaseUnavailable
        If its database server does not answer, or refuses.

    Examples
    --------
    >>> db = cbir.open("collection")
    >>> for hit in db.search("query.dcm", k=5):
    ...     print(hit.rank, hit.id, hit.score, hit.labels, hit.source)
    """
    return OpenCollection(folder, settings.load(**options))
