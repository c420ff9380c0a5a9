"""Messages about collections: contents, profile, statistics and history."""

from typing import Any

from pydantic import BaseModel, Field

from cbir.search import example_values as example


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
        "descriptors.",
        examples=[None],
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
        "images, or no encoder.",
        examples=[None],
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
