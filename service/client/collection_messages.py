"""Collections and jobs in messages of the service, and the paths that name a collection."""

from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from cbir.errors import InvalidInput
from cbir.search import example_values as example

COLLECTION_RULE = "/v1/collections/<collection>"  # as Flask's rules write it


class CollectionNames(BaseModel):
    """The collections that the caller may use."""

    collections: list[str] = Field(
        description="Names of the collections, the default one first.", examples=[["knees", "chests"]]
    )
    default: str = Field(description="Collection of requests that name none.", examples=["knees"])


class SnapshotFacts(BaseModel):
    """The index that is derived from the collection's database."""

    file: str = Field(description="Name of the file in the collection's folder.", examples=["239.index"])
    generation: int = Field(description="Generation of the collection that it shows.", examples=[239])
    images: int = Field(description="Number of images in it.", examples=[13549])


class CollectionInfo(BaseModel):
    """Facts about a collection."""

    name: str = Field(description="Name of the collection.", examples=["knees"])
    images: int = Field(description="Number of images.", examples=[13549])
    profile: str = Field(
        description="Name of the profile, which makes vectors of images.", examples=["huang2012"]
    )
    profile_hash: str = Field(
        description="Hash of the profile; vectors are comparable only if it is equal.",
        examples=["00e555143638818d"],
    )
    descriptor: str = Field(description="Descriptor of the profile.", examples=["huang2012"])
    weights: dict[str, float] = Field(
        description="Weight of each part of the descriptor; parts that are not named have the weight 1.",
        examples=[{"tamura": 0.5}],
    )
    rerank: dict[str, Any] = Field(
        description="Parameters of re-rankers that the profile sets.", examples=[{"P": 9}]
    )
    generation: int = Field(
        description="Number of transactions that have changed the collection.", examples=[241]
    )
    format: int = Field(description="Version of the collection's format on disk.", examples=[2])
    created: str = Field(description="When the collection was created, ISO 8601.", examples=[example.TIME])
    statistics_fitted_on: int | None = Field(
        description="Number of images that the normalisation was fitted on; null if there is none yet.",
        examples=[13549],
    )
    snapshot: SnapshotFacts | None = Field(description="The index on disk; null if there is none yet.")
    labels: dict[str, int] = Field(
        description="Label keys, and the number of images that have each.",
        examples=[{"modality": 13549, "grade": 2779}],
    )
    bytes_on_disk: int = Field(description="Size of the collection's folder in bytes.", examples=[202678316])


class ProfileInfo(BaseModel):
    """Settings that turn images into vectors; only vectors with equal hashes can be compared."""

    name: str = Field(description="Name of the profile.", examples=["huang2012"])
    hash: str = Field(description="Hash of what decides the vectors.", examples=["00e555143638818d"])
    descriptor: str = Field(description="Descriptor that makes a vector of an image.", examples=["huang2012"])
    dimensions: int = Field(description="Number of values of a vector.", examples=[222])
    parts: dict[str, int] = Field(
        description="Parts of a vector in their order, and the number of values of each.",
        examples=[{"color_layout": 64, "edge_histogram": 150, "tamura": 8}],
    )
    normalisation: str = Field(
        description="Normalisation of the values: standardise, beside, project or none.",
        examples=["standardise"],
    )
    components: int | None = Field(
        description="Learned directions that the values of an encoder are projected to; null for other "
        "descriptors."
    )
    weights: dict[str, float] = Field(
        description="Weight of each part; parts that are not named have the weight 1.",
        examples=[{"tamura": 0.5}],
    )
    metric: str = Field(description="Distance between vectors.", examples=["euclidean"])
    rerank: dict[str, Any] = Field(
        description="Parameters of re-rankers that the profile sets.", examples=[{"P": 9}]
    )


class Normalisation(BaseModel):
    """normalised = (raw - mean) * scale.

    The values of an encoder, which `scale` leaves out, are projected to `components` directions learned from the
    collection instead and scaled to length 1.
    """

    fitted_on: int = Field(description="Number of images that it was fitted on.", examples=[13549])
    components: int | None = Field(
        description="Learned directions that the values of an encoder are projected to; null if there are too few "
        "images, or no encoder."
    )
    version: int = Field(description="Number of the fit, from 1; refitting raises it.", examples=[1])
    mean: list[float] = Field(
        description="Mean of each value, subtracted first.", examples=[[0.12, 0.4, 0.07]]
    )
    scale: list[float] = Field(
        description="Factor of each value, 1 / standard deviation.", examples=[[3.1, 1.0, 8.5]]
    )


class CollectionStatistics(BaseModel):
    """Counts of images."""

    images: int = Field(description="Number of images.", examples=[13549])
    patients: int = Field(description="Number of different patient keys.", examples=[1611])
    without_patient: int = Field(description="Number of images without a patient key.", examples=[9739])
    formats: dict[str, int] = Field(
        description="Number of images by file format.", examples=[{"dicom": 12000, "png": 1549}]
    )
    labels: dict[str, dict[str, int]] = Field(
        description="Number of images by label key and value; at most the 100 most frequent values of a key.",
        examples=[{"modality": {"CT": 9000, "MR": 4549}}],
    )
    normalisation: Normalisation | None = Field(
        description="Normalisation of the vectors; null until there are enough images to fit it."
    )


class ChangeRecord(BaseModel):
    """One change of a collection."""

    change: int = Field(description="Number of the change, ascending.", examples=[238])
    at: str = Field(description="Time of the change, ISO 8601.", examples=[example.TIME])
    who: str = Field(
        description='Author: "token ID", "user NAME", "service" without tokens, or "command line".',
        examples=["token 4f1c"],
    )
    what: str = Field(
        description='Kind of change: "added", "deleted", "labelled", "erased" or "profile".',
        examples=["added"],
    )
    images: int = Field(description="Number of images concerned.", examples=[1])
    image_ids: list[str] = Field(
        description="Ids of these images, at most the first 100.", examples=[[example.IMAGE_ID]]
    )


class ChangePage(BaseModel):
    """A page of the changes of a collection."""

    items: list[ChangeRecord] = Field(description="Changes, newest first.")
    next: str | None = Field(
        description="Send it as `cursor` to get the following page; null on the last one.", examples=["138"]
    )


class JobRequest(BaseModel):
    """Index a folder of the server."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"folder": "/archive/2024"}]})

    folder: str = Field(
        description="Absolute path of a folder on the server, below one of the setting `index_roots`.",
        examples=["/archive/2024"],
    )
    collection: str | None = Field(
        default=None, description="Name of the collection; null for the default one.", examples=["knees"]
    )
    labels: str | None = Field(
        default=None,
        description="Absolute path of a csv file of labels, below one of the setting `index_roots`; null for none.",
        examples=["/archive/labels.csv"],
    )
    duplicates: bool = Field(
        default=False, description="Also add pictures that the collection already has.", examples=[False]
    )
    restore: bool = Field(
        default=False, description="Also add pictures that were deleted earlier.", examples=[False]
    )
    processes: int | None = Field(
        default=None,
        description="Number of processes, from 1 to the number of cores; null for half of them.",
        examples=[2],
    )


class RefusedFile(BaseModel):
    """A file without a usable image."""

    path: str = Field(
        description="Path relative to the job's folder; empty unless the caller has the scope admin.",
        examples=["scans/report.txt"],
    )
    reason: str = Field(description="Reason of the refusal.", examples=["the file is not an image"])


class JobInfo(BaseModel):
    """State and progress of a job."""

    job: str = Field(description="Name of the job.", examples=[example.JOB])
    kind: str = Field(description="Kind of job: index, map or audit.", examples=["index"])
    collection: str = Field(description="Name of the collection that it changes.", examples=["knees"])
    state: str = Field(
        description='"waiting", "running", "done", "cancelled" or "failed" (see `error`).', examples=["done"]
    )
    waits_for: str | None = Field(
        default=None,
        description="What a waiting job waits for: another job of the collection, or a worker that has what it "
        "needs; null if the next free worker takes it.",
    )
    attempts: int = Field(
        default=0,
        description="Number of workers that have begun it; the job fails when three have been lost with it.",
        examples=[1],
    )
    worker: str | None = Field(
        default=None,
        description="Worker that runs it, or ran it last: host and process; null unless the caller has the scope "
        "admin.",
        examples=["cbir-1:4711:7f3a"],
    )
    created: str = Field(description="When the job was requested, ISO 8601.", examples=[example.TIME])
    ended: str | None = Field(
        description="When it ended, ISO 8601; null before.", examples=["2026-03-02T09:42:10+00:00"]
    )
    done: int = Field(
        description="Number of files that it has looked at; of a map, steps of its layout; of an audit, "
        "thousandths.",
        examples=[1000],
    )
    total: int | None = Field(
        description="Number of all its files; null while they are counted.", examples=[1000]
    )
    refused: int = Field(description="Number of files without a usable image.", examples=[1])
    refused_files: list[RefusedFile] = Field(
        description="The refused files, at most the first 100; they are forgotten a week after the end."
    )
    summary: dict[str, Any] | None = Field(
        description="Summary of `cbir index`, once the job has ended; null before.",
        examples=[{"added": 999, "refused": 1}],
    )
    error: str | None = Field(description="Reason of a failure; null for other states.")


class JobList(BaseModel):
    """Jobs of the service."""

    items: list[JobInfo] = Field(
        description="Jobs of all services that share the state database, newest first, at most 500."
    )


def path_in_collection(path: str, collection: str | None = None) -> str:
    """Return the path of an operation below that of a collection.

    Parameters
    ----------
    path : str
        Path without a collection: "/v1/images", "/v1/collection/profile", "/dicomweb/studies".
    collection : str, optional
        Name of the collection; by default the variable of a URL rule.

    Returns
    -------
    str
        "/v1/collections/NAME/images", "/v1/collections/NAME/profile", "/v1/collections/NAME/dicomweb/studies".

    Raises
    ------
    InvalidInput
        For a name that an address cannot hold.
    """
    if collection in ("", ".", ".."):  # clients resolve these as parts of the path
        raise InvalidInput(f"collection: there is no collection {collection!r}")
    start = COLLECTION_RULE if collection is None else f"/v1/collections/{quote(collection, safe='')}"
    for prefix in ("/v1/collection", "/v1"):
        if path == prefix or path.startswith(f"{prefix}/"):
            return start + path.removeprefix(prefix)
    return start + path
