"""Content-based retrieval of medical images: image in, ranked cases out.

>>> import cbir
>>> cbir.index("scans", "collection")
>>> hits = cbir.search("query.dcm", collection="collection", k=5)
>>> db = cbir.open("collection")  # for many searches
>>> hits = db.search("query.dcm", k=5)

docs/python.md explains these functions. They are imported when they are used.
"""

from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from cbir.system.api_packages import find_moved_modules

if TYPE_CHECKING:
    from cbir.api.collection_search import OpenCollection as OpenCollection
    from cbir.api.collection_search import open as open
    from cbir.api.collection_search import search as search
    from cbir.api.evaluate_collection import Evaluation as Evaluation
    from cbir.api.evaluate_collection import evaluate as evaluate
    from cbir.api.index_folder import index_folder
    from cbir.api.query_input import describe as describe
    from cbir.errors import CbirError as CbirError
    from cbir.ingest.query_file import QueryOptions as QueryOptions
    from cbir.rerank.ranked import rerank_vectors as rerank_vectors
    from cbir.search.answer import Hits as Hits
    from cbir.search.search_models import Hit as Hit
    from cbir.search.search_options import SearchOptions as SearchOptions
    from cbir.store.records.filter_conditions import Condition as Condition
    from service.client.http_client import Client as Client

    index = index_folder

find_moved_modules()

__version__ = "1.0.0"

OBJECTS = {  # that importing cbir alone does not load
    "CbirError": "cbir.errors:CbirError",
    "Client": "service.client:Client",
    "Condition": "cbir.store.records.filter_conditions:Condition",
    "Evaluation": "cbir.api.evaluate_collection:Evaluation",
    "Hit": "cbir.search.search_models:Hit",
    "Hits": "cbir.search.answer:Hits",
    "OpenCollection": "cbir.api.collection_search:OpenCollection",
    "QueryOptions": "cbir.ingest.query_file:QueryOptions",
    "SearchOptions": "cbir.search.search_options:SearchOptions",
    "describe": "cbir.api.query_input:describe",
    "evaluate": "cbir.api.evaluate_collection:evaluate",
    "index": "cbir.api.index_folder:index_folder",
    "open": "cbir.api.collection_search:open",
    "rerank_vectors": "cbir.rerank.ranked:rerank_vectors",
}


PACKAGES = ("rerank", "search")  # that can be called


def __getattr__(name: str) -> Any:
    """Import a name of the API: FAISS, OpenCV and the database take a second."""
    if name in PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name not in OBJECTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return resolve_name(OBJECTS[name])


def __dir__() -> list[str]:
    """Return the names of the API, without what this module imports for itself."""
    names = {name for name in globals() if name.startswith("__")} | {*OBJECTS, *PACKAGES}
    try:
        __getattr__("Client")
    except ModuleNotFoundError:  # help(cbir) reads every name
        names.remove("Client")
    return sorted(names)
