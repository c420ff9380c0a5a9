"""Tuned networks as JSON: tensors as base64 of float16, and what they make of the graded images."""

import base64
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from cbir import encoders
from cbir.errors import InvalidInput
from cbir.grading.graded_cases import GradedCases
from cbir.grading.grading_network import GradedPictures, GradingNetwork, mean_and_max
from cbir.grading.interpolation import GradeInterpolator
from cbir.grading.picture_maps import PictureMaps
from cbir.grading.tuned_cnn_ranker import TunedCnnRanker

PART = 256  # images whose maps are read at a time
Natural = Annotated[int, Field(ge=0, le=1 << 24)]


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


class StoredNetwork(BaseModel):
    """A `GradingNetwork`, and the graded images at the time of training.

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
        Tuned tensors by name.
    content_hashes, scores, values
        Hashes of the graded pictures, their expected grades, and their values (n, 224).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    encoder: str
    encoder_hash: str
    side: Annotated[int, Field(ge=8, le=4096)]
    window: str
    mirror: bool
    levels: tuple[float, ...]
    tensors: dict[str, PackedTensor]
    content_hashes: tuple[str, ...]
    scores: tuple[float, ...]
    values: PackedTensor

    def open_network(self) -> GradingNetwork:
        """Load the network; raise InvalidInput if it is damaged or the encoder is another one now."""
        if encoders.get(self.encoder).card.hash != self.encoder_hash:
            raise InvalidInput(
                f"the encoder {self.encoder} has other weights now; run `cbir grade fit` again"
            )
        tensors = {name: packed.array() for name, packed in self.tensors.items()}
        return GradingNetwork(self.encoder, tensors, np.array(self.levels), self.window, self.mirror)

    def graded(self) -> GradedPictures:
        """Return expected grades and values of the graded images in training."""
        return GradedPictures(np.array(self.scores), self.values.array().astype(np.float32))


def store_network(
    interpolator: GradeInterpolator, pictures: PictureMaps, cases: GradedCases
) -> StoredNetwork:
    """Convert the network of a fitted interpolator for storage.

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
    network, scores = ranker.network_, np.empty(len(cases))
    scores[ordered.order] = ordered.scores
    rows = np.arange(len(cases))
    values = [
        mean_and_max(pictures.maps(network.window, part, np.zeros(len(part), bool)))
        for part in np.array_split(rows, -(-len(rows) // PART))
    ]
    return StoredNetwork(
        encoder=ranker.encoder,
        encoder_hash=encoders.get(ranker.encoder).card.hash,
        side=pictures.pictures.shape[1],
        window=network.window,
        mirror=network.mirror,
        levels=tuple(network.levels.tolist()),
        tensors={name: pack(values) for name, values in network.tensors.items()},
        content_hashes=tuple(cases.content_hashes.tolist()),
        scores=tuple(scores.tolist()),
        values=pack(np.concatenate(values)),
    )


def pack(values: NDArray[Any]) -> PackedTensor:
    """Pack an array; its values become float16."""
    return PackedTensor(
        shape=values.shape, data=base64.b64encode(np.asarray(values, "<f2").tobytes()).decode()
    )
