"""Fitted graders, and their tuned networks, as JSON, which loads without executing anything in it."""

import base64
from typing import Annotated, Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from cbir.descriptors import encoders
from cbir.errors import InvalidInput
from cbir.learn import grading
from cbir.learn.grading.cnn_ranker import TunedCnnRanker
from cbir.learn.grading.grade_scale import GradeScale
from cbir.learn.grading.graded_cases import GradedCases
from cbir.learn.grading.interpolation import GradeInterpolator, Smoothing
from cbir.learn.grading.picture_maps import GradingNetwork, NetworkMean, PictureMaps, mean_and_max
from cbir.learn.models.ranking_estimator import FeatureRanker

PART = 256  # images whose maps are read at a time
Natural = Annotated[int, Field(ge=0, le=1 << 24)]


class GradedPictures(NamedTuple):
    """Expected grades (n,) of pictures, and values (n, 224) that tell how alike they are, from layers not tuned."""

    grades: NDArray[np.float64]
    values: NDArray[np.float32]


def unpack(data: str, shape: tuple[int, ...], kind: str) -> NDArray[Any]:
    """Return an array of this kind and shape from base64 data; raise InvalidInput if it is damaged."""
    try:
        return np.frombuffer(base64.b64decode(data, validate=True), kind).reshape(shape)
    except ValueError as error:
        raise InvalidInput("the stored grader is damaged; run `cbir grade fit` again") from error


class PackedTensor(BaseModel):
    """An array of float16 as base64."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shape: tuple[Natural, ...]
    data: str

    def array(self) -> NDArray[np.float16]:
        """Return the array; raise InvalidInput if it is damaged."""
        values = unpack(self.data, self.shape, "<f2")
        if not np.isfinite(values).all():
            raise InvalidInput("the stored grader has values that are not finite; run `cbir grade fit` again")
        return values


class TunedWindow(BaseModel):
    """Window and tuned tensors of one network."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    window: str
    tensors: dict[str, PackedTensor]


class StoredNetwork(BaseModel):
    """A `NetworkMean`, and the graded images at the time of training.

    Attributes
    ----------
    encoder : str
        Encoder whose blocks were tuned.
    encoder_hash : str
        Hash of its card.
    side : int
        Side in pixels of the pictures it takes.
    window, mirror, levels
        See `GradingNetwork`.
    tensors : dict
        Tuned tensors of the first network by name.
    others : tuple of TunedWindow
        The other networks.
    content_hashes, scores, values
        Hashes of the graded pictures, their expected grades, and their values (n, 224) in the first network.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    encoder: str
    encoder_hash: str
    side: Annotated[int, Field(ge=8, le=4096)]
    window: str
    mirror: bool
    levels: tuple[float, ...]
    tensors: dict[str, PackedTensor]
    others: tuple[TunedWindow, ...] = ()
    content_hashes: tuple[str, ...]
    scores: tuple[float, ...]
    values: PackedTensor

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        count = len(self.content_hashes)
        if len(self.scores) != count or self.values.shape[:1] != (count,):
            raise ValueError("graded images, scores and values differ in number")
        if not np.isfinite(self.levels).all() or (np.diff(self.levels) <= 0).any():
            raise ValueError("levels must be finite and ascending")
        return self

    def open_network(self) -> NetworkMean:
        """Load the networks; raise InvalidInput if it is damaged or the encoder is another one now."""
        if encoders.get(self.encoder).card.hash != self.encoder_hash:
            raise InvalidInput(
                f"the encoder {self.encoder} has other weights now; run `cbir grade fit` again"
            )
        levels, networks = np.array(self.levels), []
        for window, packed in (
            (self.window, self.tensors),
            *((other.window, other.tensors) for other in self.others),
        ):
            tensors = {name: values.array() for name, values in packed.items()}
            networks.append(GradingNetwork(self.encoder, tensors, levels, window, self.mirror))
        return NetworkMean(networks)

    def graded(self) -> GradedPictures:
        """Return expected grades and values of the graded images in training."""
        return GradedPictures(np.array(self.scores), self.values.array().astype(np.float32))


def store_network(
    interpolator: GradeInterpolator, pictures: PictureMaps, cases: GradedCases
) -> StoredNetwork:
    """Convert the networks of a fitted interpolator for storage.

    Parameters
    ----------
    interpolator : GradeInterpolator
        Fitted, with a `TunedCnnRanker`.
    pictures : PictureMaps
        Pictures in training.
    cases : GradedCases
        Their images.
    """
    ranker, ordered = interpolator.ranker_, interpolator.list_
    assert isinstance(ranker, TunedCnnRanker)
    (first, *others), scores = ranker.network_.networks, np.empty(len(cases))
    scores[ordered.order] = ordered.scores
    rows = np.arange(len(cases))
    values = [
        mean_and_max(pictures.maps(first.window, part, np.zeros(len(part), bool)))
        for part in np.array_split(rows, -(-len(rows) // PART))
    ]
    return StoredNetwork(
        encoder=ranker.encoder,
        encoder_hash=encoders.get(ranker.encoder).card.hash,
        side=pictures.pictures.shape[1],
        window=first.window,
        mirror=first.mirror,
        levels=tuple(first.levels.tolist()),
        tensors=_packed(first),
        others=tuple(TunedWindow(window=other.window, tensors=_packed(other)) for other in others),
        content_hashes=tuple(cases.content_hashes.tolist()),
        scores=tuple(scores.tolist()),
        values=pack(np.concatenate(values)),
    )


def _packed(network: GradingNetwork) -> dict[str, PackedTensor]:
    return {name: pack(values) for name, values in network.tensors.items()}


def pack(values: NDArray[Any]) -> PackedTensor:
    """Pack an array; its values become float16."""
    return PackedTensor(
        shape=values.shape, data=base64.b64encode(np.asarray(values, "<f2").tobytes()).decode()
    )


Floats = NDArray[np.float64]

INTEGERS = ("features_",)
PACKED = ("axes_", "landmarks_")  # have the precision of float32
FORMAT = 1


class PackedArray(BaseModel):
    """An array of float32 as base64: a quarter of the length of its numbers as text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shape: tuple[int, int]
    data: str

    def array(self) -> Floats:
        """Return the array as float64; raise InvalidInput if it is damaged."""
        return unpack(self.data, self.shape, "<f4").astype(np.float64)


class StoredGrading(BaseModel):
    """A fitted ranker and the state of its `GradeInterpolator`; the graded images stay in the collection.

    Attributes
    ----------
    profile_hash : str
        Profile of the vectors in training.
    column, where
        Label of the grades, and conditions on the images.
    ranker, options
        Name and options of the ranker.
    learned : dict
        Its attributes that end with `_`, as lists; large ones packed.
    smoothing : int or "auto"
        See `GradedList`.
    error, coverage : float
        Half the width of the interval, which covers this share of the grades.
    range : (float, float)
        Lowest and highest grade.
    scale : three lists of float, optional
        Scores, levels and half widths of a `GradeScale`; None: grades come from neighbours.
    network : StoredNetwork, optional
        Of the ranker cnn, in place of `learned`.
    images, patients : int
        Numbers in training.
    fitted : str
        Date and time.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = FORMAT
    profile_hash: str
    column: str
    where: tuple[str, ...]
    ranker: str
    options: dict[str, Any]
    learned: dict[str, list[float] | list[list[float]] | float | PackedArray]
    smoothing: Smoothing
    error: float
    coverage: float
    range: tuple[float, float]
    scale: tuple[list[float], list[float], list[float]] | None = None
    network: StoredNetwork | None = None
    images: int
    patients: int
    fitted: str

    def fitted_ranker(self) -> FeatureRanker:
        """Rebuild the fitted ranker; `network` opens itself."""
        ranker = grading.make_ranker(self.ranker, **self.options)
        assert isinstance(ranker, FeatureRanker)
        for name, value in self.learned.items():
            kind = np.int64 if name in INTEGERS else np.float64
            if isinstance(value, PackedArray):
                setattr(ranker, name, value.array())
            else:
                setattr(ranker, name, np.asarray(value, kind) if isinstance(value, list) else value)
        with np.errstate(divide="ignore"):
            ranker.scale_ = 1.0 / ranker.scale_
        ranker.n_features_in_ = len(ranker.mean_)
        return ranker

    def grade_scale(self) -> GradeScale | None:
        """Return the thresholds; None if grades come from neighbours."""
        return None if self.scale is None else GradeScale(*map(np.array, self.scale))


def store_grading(interpolator: GradeInterpolator, **facts: Any) -> StoredGrading:
    """Convert a fitted `interpolator` with a coverage for storage; `facts` are further fields of `StoredGrading`.

    Deviations are stored as their inverse, 0 for infinite ones.
    """
    ranker, scale = interpolator.ranker_, interpolator.scale_
    parts = None if scale is None else (scale.scores, scale.levels, cast(Floats, scale.half_widths))
    learned: dict[str, Any] = {}
    if facts.get("network") is None:
        learned = {name: value for name, value in vars(ranker).items() if name.endswith("_")}
        learned["scale_"] = 1 / ranker.scale_
        del learned["n_features_in_"]
    return StoredGrading(
        ranker=ranker.name,
        options=ranker.get_params(),
        learned={name: _storable(name, value) for name, value in learned.items()},
        smoothing=interpolator.smoothing,
        error=cast(float, interpolator.error_),
        coverage=cast(float, interpolator.coverage),
        range=interpolator.range_,
        scale=None if parts is None else tuple(part.tolist() for part in parts),
        **facts,
    )


def _storable(name: str, value: Any) -> Any:
    if name not in PACKED or not np.size(value):
        return np.asarray(value).tolist()
    data = base64.b64encode(np.asarray(value, "<f4").tobytes()).decode()
    return PackedArray(shape=value.shape, data=data)


def read_stored_grading(text: str, column: str) -> StoredGrading:
    """Parse the stored JSON `text` of the label `column`. Raises InvalidInput for another version."""
    grader, again = f"the grader of the label {column!r}", "run `cbir grade fit` again"
    try:
        stored = StoredGrading.model_validate_json(text)
    except ValidationError as error:
        raise InvalidInput(f"{grader} cannot be read; {again}") from error
    if stored.format != FORMAT:
        raise InvalidInput(f"{grader} has format {stored.format}, this program reads {FORMAT}; {again}")
    return stored
