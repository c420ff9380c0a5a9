"""Options and queries of a search, the same in the Python API, the HTTP client, the service and the commands.

`SearchFields` says what a value may be and means; the service and its client, `Request` and `cbir search` take it
from there.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from pydantic import BaseModel, Field, FiniteFloat, InstanceOf

from cbir.search import example_values as example
from cbir.search.search_models import MAX_EXAMPLES, MAX_GROUP_SIZE, MAX_NAME_CHARACTERS, Examples, Judgements
from cbir.store.records.filter_conditions import Condition, DicomScope, LabelConditions, PatientScope

MAX_BATCH = 100  # queries of a request

ID = "id:"


class SearchOptions(TypedDict, total=False):
    """Options of a search, all of them by name.

    Attributes
    ----------
    k : int
        Number of hits, or with `group_by` of groups, at least 1; 20 by default. As many come back whenever as many
        match.
    rerank : str
        Re-ranking method; the default of the settings, `auto`.
    parameters : mapping of str to float or str
        Parameters of the method that differ from the collection's, such as {"P": 9}.
    where : str, Condition or sequence of them
        Label conditions, all of which must hold: "modality=CT", also != < <= > >=; "grade?" for images with the
        label, "!grade?" for those without; or `cbir.Condition("modality", "=", "CT")`. Of several values of one key
        any: ["modality=CT", "modality=MR"].
    exclude_patient : str
        Key of a patient whose images are left out, or an identifier; over HTTP that needs the scope admin.
    same_patient : bool
        Only images of the query's patient, without those of its own study; nothing where the patient is unknown.
    exclude_own_study : bool
        Leave out the images of the query's own study, or of its patient where it is of no study.
    examples : sequence of str
        Ids of further example images; examples are not among the hits.
    feedback : mapping of str to float
        Relevance from -1 to 1 by image id, for relevance feedback.
    score_threshold : float
        Least score of a hit. Scores are relative to the query and the method: the threshold does not carry over to
        another query, except of a search by text.
    max_distance : float
        Largest distance of a hit from the nearest example, at least 0. Distances are comparable between queries of a
        collection.
    group_by : str
        "patient", "study", "series", or the key of a label, with "label:" before it if it is one of these words: at
        most `group_size` hits have the same one. An image without it is a group of its own.
    group_size : int
        Most hits of a group, from 1 to 100; 1 by default.
    frame : int
        Frame of a file, from 1.
    region : (int, int, int, int)
        Part to search with: x, y, width, height in pixels.
    anywhere : bool
        Find images that have something like `region` at any place, by their cells; hits have a `match`. Needs
        `cbir collection regions`.
    window : (float, float)
        Center and width for a grey DICOM file.
    text : str
        Words to search with in place of examples, where the encoder has a text tower.
    vector : (d,) or (v, d) array-like of float
        Raw values of the collection's descriptor to search with, one or several examples. An image with the same
        vector is a hit like any other.
    federated : bool
        Ask the other services that the service knows too, with the vector of the query alone. Over HTTP only.
    sites : str or sequence of str
        Names of the services to ask; all of them by default. Over HTTP only.
    include : sequence of str
        What answers have beside their hits: "cards", "before", and of files "rendering", "pixels" and "vector". Over
        HTTP only.
    origin : sequence of dict
        For each of `vector` what `query.origin` of the answer to the file said. Over HTTP only.
    profile : str
        Name or hash of the profile that `vector` was computed with, for a search that is to be refused if the
        collection has another.
    """

    k: int | None
    rerank: str | None
    parameters: Mapping[str, float | str] | None
    where: LabelConditions
    exclude_patient: str | None
    same_patient: bool
    exclude_own_study: bool
    examples: Sequence[str]
    feedback: Mapping[str, float] | None
    score_threshold: float | None
    max_distance: float | None
    group_by: str | None
    group_size: int | None
    frame: int | None
    region: tuple[int, int, int, int] | None
    anywhere: bool
    window: tuple[float, float] | None
    text: str | None
    vector: Any
    federated: bool
    sites: str | Sequence[str]
    profile: str | None
    include: str | Sequence[str]
    origin: Any


class SearchFields(BaseModel):
    """Values of a search that every interface takes: bounds, meaning and an example of each, once."""

    k: int = Field(
        default=20,
        ge=1,
        description="Number of results, or with `group_by` of groups, from 1 to the setting `max_results`; 20 by "
        "default. As many come back whenever as many match.",
        examples=[5],
    )
    rerank: Annotated[str | None, Field(max_length=MAX_NAME_CHARACTERS)] = Field(
        default=None,
        description="Name of a re-ranker, one of those of `/v1/rerankers` or `auto`; by default that of the "
        "service's settings.",
        examples=["aqe"],
    )
    where: Sequence[str | InstanceOf[Condition]] = Field(default=[])
    exclude_patient: str | None = Field(
        default=None,
        description="Patient key, whose images are left out of the results; with the scope admin also the "
        "identifier it was made from, but not in the query string, since addresses are written to logs.",
        examples=[example.PATIENT_KEY],
    )
    same_patient: bool = Field(
        default=False,
        description="True for images of the query's patient only, without those of its own study: the other studies, "
        "most similar first. The query is an image of the collection with a patient key, or a DICOM file with a "
        "Patient ID, which counts towards `identifiers_per_hour`. Nothing is found where the patient is unknown.",
        examples=[True],
    )
    exclude_own_study: bool = Field(
        default=False,
        description="True to leave out the images of the query's own study; of an image of the collection that is of "
        "no study, those of its patient. The first image of a query counts, and nothing is left out where its file "
        "names no study.",
        examples=[True],
    )
    examples: Examples = Field(
        default=[],
        description=f"Ids of further example images, all left out of the results; at most {MAX_EXAMPLES}.",
        examples=[[example.OTHER_IMAGE_ID]],
    )
    feedback: Judgements = Field(
        default=[], description="Judgements of images, from which the order is learned."
    )
    score_threshold: FiniteFloat | None = Field(
        default=None,
        description="Least score of a result. Scores are relative to the query and the method, so a threshold does "
        "not carry over to another query; those of a search by text do, since they are cosines.",
        examples=[0.5],
    )
    max_distance: Annotated[FiniteFloat | None, Field(ge=0)] = Field(
        default=None,
        description="Largest distance of a result from the query, the nearest of several examples. Distances are "
        "comparable between queries of a collection, until it is normalised again.",
        examples=[0.8],
    )
    group_by: Annotated[str | None, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)] = Field(
        default=None,
        description="Return at most `group_size` results of each patient, study or series, or of each value of a "
        "label: patient, study, series, or the key of a label, with label: before it if it is one of these words. An "
        "image without it is a group of its own.",
        examples=["study"],
    )
    group_size: int = Field(
        default=1,
        ge=1,
        le=MAX_GROUP_SIZE,
        description=f"Most results of a group, from 1 to {MAX_GROUP_SIZE}; 1 by default.",
        examples=[1],
    )


# Those that are sent and passed on as they are
REQUEST_VALUES = tuple(
    name for name in SearchFields.model_fields if name not in ("where", "examples", "feedback")
)


def check_names(options: Mapping[str, Any]) -> None:
    """Raise TypeError for an option that there is not, as a function with these parameters does."""
    for name in options:
        if name not in SearchOptions.__annotations__:
            names = ", ".join(SearchOptions.__annotations__)
            raise TypeError(f"a search has no option {name!r}; there are: {names}")


def check_queries(queries: Sequence[Any]) -> None:
    """Raise TypeError for a single text or file, whose characters would each be a query."""
    if isinstance(queries, str | bytes | bytearray | Mapping):
        raise TypeError(f"several queries are a list, such as [query]; not {type(queries).__name__}")


def query_and_options(query: Any, common: SearchOptions) -> tuple[Any, SearchOptions]:
    """Return query and options of one of several searches; a mapping has its "query" and options of its own."""
    if not isinstance(query, Mapping):
        return query, common
    options = {str(name): value for name, value in query.items() if name != "query"}
    check_names(options)
    return query.get("query"), SearchOptions(**{**common, **options})  # type: ignore[typeddict-item]


def list_judgements(feedback: Mapping[str, float] | None) -> list[dict[str, Any]]:
    """Return the judgements of images as a request has them."""
    return [
        {"image_id": image_id, "relevance": relevance} for image_id, relevance in (feedback or {}).items()
    ]


def list_examples(query: Any) -> list[Any]:
    """Return the examples of a query: those of a list or tuple, none of None, or itself."""
    if query is None:
        return []
    is_several = isinstance(query, Sequence) and not isinstance(query, str | bytes | bytearray)
    return list(query) if is_several else [query]


def image_id_of(example: Any) -> str | None:
    """Return the image id that a text stands for: `id:ID`, or a text that names no file; None for other examples."""
    if not isinstance(example, str):
        return None
    if example.startswith(ID):
        return example.removeprefix(ID)
    return None if is_file(example) else example


def is_array(example: Any) -> bool:
    """Return whether an object has samples: an array of NumPy, an image of Pillow, a tensor of torch."""
    return hasattr(example, "__array__") or hasattr(example, "__array_interface__")


def is_file(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a file or folder; no text is too long or too odd to ask."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


class Request(SearchFields):
    """Parameters of a search beside the query image; `SearchFields` explains those that users send.

    parameters: of the re-ranker, where they differ from the profile's.
    exclude_patient_key: as `exclude_patient`, but a key only, for callers who may not try identifiers.
    outside: images of this study, series or instance are no answers, nor others that are not DICOM if it says so.
    without_patient_key: patient whose images are left out too.
    of_patient: with `same_patient` the images of the patient, where the caller knows them and the query image does
    not tell.
    label_bytes: once the best hits have more bytes of labels, those of the others are not read; None for all.
    """

    parameters: dict[str, Any] = Field(default={})
    exclude_patient_key: str | None = None
    outside: DicomScope | None = None
    without_patient_key: str | None = None
    of_patient: PatientScope | None = None
    label_bytes: int | None = None
