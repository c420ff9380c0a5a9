"""Searches in an open collection."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from cbir import settings
from cbir.errors import InvalidInput
from cbir.images import Image, Region
from cbir.images.image import Window
from cbir.ingest.query_file import WHOLE_FILE, QueryOptions
from cbir.python_api.collection_images import CollectionImages
from cbir.python_api.query_input import read_example, read_region, require_id
from cbir.search import Request, Searcher, Stopwatch
from cbir.search.hits import Hits
from cbir.search.query_kinds import list_conditions, list_examples
from cbir.settings import Settings


class OpenCollection(CollectionImages):
    """A collection to search in, as `cbir.open` returns it. Thread-safe; a context manager."""

    def __init__(self, folder: str | os.PathLike[str], in_force: Settings) -> None:
        super().__init__(folder, in_force)
        self._searcher = Searcher(self.collection, self.settings)

    def search(
        self,
        query: Any = None,
        *,
        examples: Sequence[str] = (),
        feedback: Mapping[str, float] | None = None,
        k: int = 20,
        rerank: str | None = None,
        parameters: Mapping[str, float | str] | None = None,
        where: str | Sequence[str] = (),
        exclude_patient: str | None = None,
        frame: int | None = None,
        region: Region | None = None,
        window: Window | None = None,
        text: str | None = None,
    ) -> Hits:
        """Search for images similar to one or several examples, or by text.

        Parameters
        ----------
        query : str, path-like, bytes, array, Image or sequence of them
            File, content of a file, samples (`cbir.images.from_array`), or image id; "id:ID" where a file has the
            name of an id. Several are one query.
        examples : sequence of str
            Ids of further example images; examples are not among the hits.
        feedback : mapping of str to float, optional
            Relevance from -1 to 1 by image id, for relevance feedback.
        k : int
            Number of hits, at least 1.
        rerank : str, optional
            Re-ranking method; the default of the settings, `auto`.
        parameters : mapping of str to float or str, optional
            Parameters of the method that differ from the collection's, such as {"P": 9}.
        where : str or sequence of str
            Label conditions, for instance "modality=CT"; all must hold.
        exclude_patient : str, optional
            Identifier, or key, of a patient whose images are left out.
        frame : int, optional
            Frame of a file, from 1.
        region : (int, int, int, int), optional
            Part to search with: x, y, width, height in pixels.
        window : (float, float), optional
            Center and width for a grey DICOM file.
        text : str, optional
            Words to search with instead of examples, where the encoder has a text tower.

        Raises
        ------
        NotFound
            For a query that is neither a file nor an image of the collection.
        UnreadableImage
            For a file or array that is no image.
        InvalidInput
            For options that do not fit the query or the collection.
        """
        images: list[Image] = []
        ids: list[str] = []
        part = QueryOptions(frame, region, window)
        for example in list_examples(query):
            image_id = require_id(example, self.collection)
            if image_id is None:
                images.append(self.read(example, part))
            elif part.names():
                images.append(self.read_part(image_id, part))
            else:
                ids.append(image_id)
        if part.names() and query is None:
            raise InvalidInput(f"{part.names()[0]}: is for a query image; leave it out with examples or text")
        request = build_request(
            k=k,
            rerank=rerank,
            parameters=dict(parameters or {}),
            where=list_conditions(where),
            exclude_patient=exclude_patient,
            examples=[*ids, *examples],
            feedback=[{"image_id": name, "relevance": value} for name, value in (feedback or {}).items()],
        )
        return self.answer(images, request, text)

    def answer(self, images: Sequence[Image], request: Request, text: str | None = None) -> Hits:
        """Search with images and the examples of a request, or by text.

        Parameters
        ----------
        images : sequence of Image
            Query images from outside.
        request : Request
            Parameters of the search, with ids of further examples.
        text : str, optional
            Words to search with instead of images.
        """
        watch = Stopwatch()
        if text is None:
            answer = self._searcher.by_examples(images, request, watch)
        elif images:
            raise InvalidInput("text: search with it or with images")
        else:
            answer = self._searcher.by_text(text, request, watch)
        return Hits.from_answer(answer, self.thumbnail)

    def read(self, example: Any, part: QueryOptions = WHOLE_FILE) -> Image:
        """Read an image as a search does, or a series in a collection of CT series.

        Parameters
        ----------
        example : str, path-like, bytes, array or Image
            See `search`; not an image id.
        part : QueryOptions
            Frame, region and window.
        """
        return read_example(example, self.limits, self.profile.volume_grid, part)

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


def build_request(**values: Any) -> Request:
    """Return a request; raise InvalidInput, which names the value, for one out of bounds."""
    try:
        return Request(**values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise InvalidInput(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def open(folder: str | os.PathLike[str], **options: Any) -> OpenCollection:
    """Open a collection to search in.

    Parameters
    ----------
    folder : str or path-like
        Folder of the collection, or its alias.
    **options
        Settings in place of those of cbir.toml and the environment (`cbir config` lists them), such as
        device="cpu".

    Raises
    ------
    NotFound
        If there is no collection.
    CollectionDamaged
        If it cannot be read.

    Examples
    --------
    >>> db = cbir.open("collection")
    >>> for hit in db.search("query.dcm", k=5):
    ...     print(hit.rank, hit.id, hit.score, hit.labels, hit.source)
    """
    return OpenCollection(folder, settings.load(**options))
