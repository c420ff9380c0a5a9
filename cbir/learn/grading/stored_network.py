"""Tuned networks as JSON: tensors as base64 of float16, and what they make of the graded images."""

import base64
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from cbir.descriptors import encoders
from cbir.errors import InvalidInput
from cbir.learn.grading.graded_cases import GradedCases
from cbir.learn.grading.grading_network import GradingNetwork, mean_and_max
from cbir.learn.grading.interpolation import GradeInterpolator
from cbir.learn.grading.network_mean import NetworkMean
from cbir.learn.grading.picture_maps import PictureMaps
from cbir.learn.grading.tuned_cnn_ranker import TunedCnnRanker

PART = 256  # images whose maps are read at a time
Natural = Annotated[int, Field(ge=0, le=1 << 24)]


class GradedPictures(NamedTuple):
    """Expected grades (n,) of pictures, and values (n, 224) that tell how alike they are, from layers not tuned."""

    grades: NDArray[np.float64]
    values: NDArray[np.float32]


class PackedTensor(BaseModel):
    """An array of float16 as base64."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shape: tuple[Natural, ...]
    data: str

    def array(self) -> NDArray[np.float16]:
        """Return the array; raise InvalidInput if it is damaged."""
        try:
            values = np.frombuffer(base64.b64decode(self.data, validate=True), "<f2").reshape(self.shape)
        except ValueError as error:
            raise InvalidInput("the stored grader is damaged; run `cbir grade fit` again") from error
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
