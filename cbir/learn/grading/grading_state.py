"""A fitted grader, loaded with the graded images of its collection; it refuses images that are unlike them."""

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances

from cbir import settings
from cbir.errors import InvalidInput
from cbir.learn.grading import SeverityRanker
from cbir.learn.grading.graded_cases import GradedCases, case_features, read_graded_cases, require_grades
from cbir.learn.grading.picture_maps import NetworkMean
from cbir.learn.grading.stored_grading import StoredGrading, StoredNetwork
from cbir.learn.models.ranking_estimator import FeatureRanker
from cbir.learn.severity.stored_images import read_grey_image
from cbir.store import Collection
from cbir.store.records.filter_conditions import parse_filters
from cbir.system.threads import checkpoint

FEWEST_IMAGES = 100  # with fewer, the range is not known
REFERENCES = 5000  # images, at most
SAMPLE = 500  # images whose distances give the limit, at most
SHARE = 0.99  # of graded images that are within the limit


class TrainingRange(NamedTuple):
    """Graded images, and the distance to the nearest one that few of them exceed.

    Attributes
    ----------
    rows : (m,) int64
        Rows of the graded images that serve as references.
    values : (m, d) float32
        Their standardised features.
    limit : float
        The 99th percentile of the distance of a graded image to the nearest one of another patient.
    """

    rows: NDArray[np.int64]
    values: NDArray[np.float32]
    limit: float

    def check(self, values: NDArray[np.float32], keep: NDArray[np.bool_]) -> None:
        """Raise InvalidInput if an image is farther from the graded images than the limit.

        Parameters
        ----------
        values : (d,) float32
            Its standardised features.
        keep : (n,) bool
            Graded images that it may be compared with.
        """
        others = self.values[keep[self.rows]]
        if not len(others):
            return
        distance = float(euclidean_distances(values[None], others).min())
        if distance > self.limit:
            raise InvalidInput(
                f"no grade: the image is unlike the graded ones. Its distance to the nearest is {distance:.1f}; "
                f"{SHARE:.0%} of the graded images are within {self.limit:.1f} of one of another patient"
            )


def fit_training_range(values: NDArray[np.float32], patients: NDArray[np.str_]) -> TrainingRange | None:
    """Measure the distances between graded images.

    Parameters
    ----------
    values : (n, d) float32
        Standardised features.
    patients : (n,) str
        Patient of each.

    Returns
    -------
    TrainingRange or None
        None if there are fewer than 100 images, or those of one patient only.
    """
    order = np.random.default_rng(0).permutation(len(values))
    rows = np.sort(order[:REFERENCES])
    sample = np.sort(order[:SAMPLE])
    distances = cast(NDArray[np.float32], euclidean_distances(values[sample], values[rows]))
    distances[patients[sample][:, None] == patients[rows]] = np.inf
    nearest = distances.min(axis=1, initial=np.inf)
    nearest = nearest[np.isfinite(nearest)]
    if len(values) < FEWEST_IMAGES or not len(nearest):
        return None
    return TrainingRange(rows, values[rows], float(np.quantile(nearest, SHARE)))


Floats = NDArray[np.float64]


class GradingState(NamedTuple):
    """Fitted ranker and scored cases.

    generation: of the collection. ranker or network: one is None. scores: (n,) of the cases. mean, scale: standardise
    the values of a network. range: None if any image may be graded.
    """

    generation: int
    stored: StoredGrading
    ranker: FeatureRanker | None
    network: NetworkMean | None
    cases: GradedCases
    scores: Floats
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    range: TrainingRange | None

    def assess(self, features: NDArray[Any]) -> tuple[float, NDArray[np.float32]]:
        """Return the score of an image, and its standardised values.

        Parameters
        ----------
        features : (d,) or (side, side)
            Its features; for a network, the grey picture.
        """
        if self.network is not None:
            score, values = self.network.grade(features)
            return score, (values - self.mean) / self.scale
        assert self.ranker is not None
        row = features[None].astype(np.float64)
        return float(self.ranker.predict(row)[0]), self.ranker.standardised(row)[0]


def load_grading_state(
    collection: Collection, column: str, stored: StoredGrading, generation: int, earlier: GradingState | None
) -> GradingState:
    """Load a fitted grader, and score the images that are graded now.

    Parameters
    ----------
    collection : Collection
        The collection.
    column : str
        Label of the grades.
    stored : StoredGrading
        The grader.
    generation : int
        Of the collection.
    earlier : GradingState, optional
        Its network is used again if it is that of `stored`.

    Raises
    ------
    InvalidInput
        If the collection has another profile now, or no image has a grade.
    """
    if stored.profile_hash != collection.profile.hash:
        raise InvalidInput("the collection has another profile now; run `cbir grade fit` again")
    cases = read_graded_cases(collection, column, parse_filters(stored.where))
    require_grades(cases, column)
    if stored.network is not None:
        is_same = earlier is not None and earlier.stored is stored
        network = (earlier.network if earlier and is_same else None) or stored.network.open_network()
        return _with_network(collection, cases, stored, stored.network, network, generation)
    ranker = stored.fitted_ranker()
    features = case_features(collection, ranker.name, cases)
    training_range = None
    if ranker.name != SeverityRanker.name:  # whose one value says nothing about the picture
        training_range = fit_training_range(ranker.standardised(features), cases.patients)
    nothing = np.zeros(1, np.float32)
    return GradingState(
        generation, stored, ranker, None, cases, ranker.predict(features), nothing, nothing, training_range
    )


def _with_network(
    collection: Collection,
    cases: GradedCases,
    stored: StoredGrading,
    trained: StoredNetwork,
    network: NetworkMean,
    generation: int,
) -> GradingState:
    """Take the scores of images in training from the grader; score later ones, or leave them out without a file."""
    graded = trained.graded()
    row_of = {content: row for row, content in enumerate(trained.content_hashes)}
    scores, values, rows = [], [], []
    pixels = settings.load().max_pixels
    for position, content in enumerate(cases.content_hashes.tolist()):
        if content in row_of:
            score, row_values = float(graded.grades[row_of[content]]), graded.values[row_of[content]]
        else:
            checkpoint()
            picture = read_grey_image(
                collection, collection.record(cases.image_ids[position]), trained.side, pixels
            )
            if picture is None:
                continue
            score, row_values = network.grade(picture)
        rows.append(position)
        scores.append(score)
        values.append(row_values)
    if not rows:
        raise InvalidInput("no graded image has a file any more; put the files back where they were indexed")
    cases = cases.select(np.array(rows))
    matrix = np.array(values, np.float32)
    deviation = matrix.std(axis=0)
    varies = (np.ptp(matrix, axis=0) > 0.0) & (deviation > 0.0)  # rounding gives equal values a deviation
    mean, scale = matrix.mean(axis=0), np.where(varies, deviation, np.float32(np.inf))
    training_range = fit_training_range((matrix - mean) / scale, cases.patients)
    return GradingState(
        generation, stored, None, network, cases, np.array(scores), mean, scale, training_range
    )
