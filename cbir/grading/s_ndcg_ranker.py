"""S-NDCG: a ranking function fitted by gradient ascent on NDCG with smooth positions (Huang et al. 2010, III)."""

from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.grading.smooth_steps import SmoothSteps
from cbir.models.linear.kernel_map import Tuning
from cbir.models.linear.kernel_ranker import Kernel, KernelRanker
from cbir.models.linear.list_measures import mean_or_nan, ndcg_gains, ndcg_of_lists
from cbir.models.linear.ranking_lists import ListSize, assign_lists, rows_by_list

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ALPHA = {"sigmoid": 0.2, "paper": 0.001}
FUNCTIONS = ("linear", "exponential")
HIGHEST = 30.0  # of the exponent of an exponential ranking function
NARROWEST = 1e-9  # least spread of scores
RIDGE = 0.1  # added to the variances in the decorrelation of features


@dataclass(eq=False, repr=False)
class SNdcgRanker(KernelRanker):
    """Gradient ascent on the mean S-NDCG (eq. 8) of lists; the result is the step with the best NDCG in validation.

    Features are decorrelated first, so that a step moves along all of them equally.

    Parameters
    ----------
    form : str
        "sigmoid": pi'(x) = 1 + sum over y != x of (1 + tanh(alpha (s_y - s_x) / spread of the list's scores)) / 2,
        always from 1 to n; a step is `rate` times as long as theta, of which only the direction matters.
        "paper": pi'(x) = 1 + sum over y != x of tanh(alpha (s_y - s_x)), and theta + rate * gradient, as printed,
        from theta 0; InvalidInput if scores leave the domain of the logarithm.
    function : str
        "linear": s = <theta, x>; "exponential": s = exp(<theta, x>).
    alpha : float, optional
        By default 0.2 for "sigmoid" and 0.001 for "paper".
    steps : int
        T.
    rate : float
        Length of a step.
    list_size : int, optional
        Images per list; None: one list.
    validation : float
        Share of the groups for validation; with too few groups, all images serve for both.
    seed : int
        Seed of the lists and the validation groups.
    kernel, tuning
        See `KernelRanker`.

    Attributes
    ----------
    chosen_ : int
        Best step, from 0.
    """

    name: ClassVar[str] = "s-ndcg"

    form: Literal["sigmoid", "paper"] = "sigmoid"
    function: Literal["linear", "exponential"] = "linear"
    alpha: float | None = None
    steps: int = 30
    rate: float = 0.05
    list_size: ListSize = 100
    validation: float = 1 / 9
    seed: int = 0
    kernel: Kernel = "linear"
    tuning: Tuning | None = None

    def _scale(self, count: int) -> float:
        return float(np.sqrt(RIDGE * count))  # the decorrelation has the ridge already, of mean products

    def _weights(self, Z: Floats, grades: Floats, groups: Integers) -> Floats:
        self._check()
        generator = np.random.default_rng(self.seed)
        mask = hold_out_groups(groups, grades, self.validation, generator)
        train = ~mask if mask.any() else np.ones(len(Z), bool)
        validation = mask if mask.any() else train
        basis = _decorrelating(Z[train])
        W, V = Z[train] @ basis, Z[validation] @ basis
        gain = ndcg_gains(grades[train])
        lists = rows_by_list(assign_lists(len(W), self.list_size, generator))
        validation_lists = assign_lists(len(V), self.list_size, generator)
        theta = best_theta = np.zeros(W.shape[1])
        best = -np.inf
        for step in range(self.steps + 1):
            if step or self.form == "paper":
                theta = self._step(theta, W, gain, lists)
            else:  # the first step from theta 0, which has no direction yet
                theta = W.T @ (gain - gain.mean())
                theta /= max(float(np.std(W @ theta)), NARROWEST)
            quality = mean_or_nan(ndcg_of_lists(V @ theta, grades[validation], validation_lists))
            if quality > best or not step:
                best, self.chosen_, best_theta = quality, step, theta
        return basis @ best_theta

    def _check(self) -> None:
        if self.form not in ALPHA:
            raise InvalidInput(f"the form of s-ndcg is sigmoid or paper, not {self.form!r}")
        if self.function not in FUNCTIONS:
            raise InvalidInput(f"the function of s-ndcg is linear or exponential, not {self.function!r}")
        for name in ("alpha", "rate", "steps"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise InvalidInput(f"the {name} of s-ndcg must be a number above 0, not {value!r}")
        if not 0 <= self.validation < 1:
            raise InvalidInput(f"validation is a share from 0 to below 1, not {self.validation!r}")

    def _step(self, theta: Floats, W: Floats, gain: Floats, lists: list[Integers]) -> Floats:
        scores = self._outputs(W @ theta)
        slopes = np.zeros(len(W))
        for rows in lists:
            slopes[rows] = s_ndcg(scores[rows], gain[rows], self.form, self._alpha)[1]
        if self.function == "exponential":
            slopes *= scores
        gradient = W.T @ slopes / len(lists)
        if self.form == "paper":
            return theta + self.rate * gradient
        length = float(np.linalg.norm(gradient))
        if length <= NARROWEST:
            return theta
        return theta + gradient * (self.rate * float(np.linalg.norm(theta)) / length)

    @property
    def _alpha(self) -> float:
        return ALPHA[self.form] if self.alpha is None else self.alpha

    def _outputs(self, products: Floats) -> Floats:
        return products if self.function == "linear" else np.exp(np.clip(products, -HIGHEST, HIGHEST))

    def _scores(self, Z: Floats) -> Floats:
        return self._outputs(self._products(Z))


def s_ndcg(scores: Floats, gain: Floats, form: str, alpha: float) -> tuple[float, Floats]:
    """Compute S-NDCG (eq. 8) of a list and its gradient (eq. 9 without the ranking function).

    Parameters
    ----------
    scores, gain : (n,) float64
        Scores and gains.
    form : str
        "sigmoid" or "paper", see `SNdcgRanker`.
    alpha : float
        Steepness.

    Returns
    -------
    float
        S-NDCG; nan if no gain is above 0.
    (n,) float64
        Its gradient with respect to the scores.

    Raises
    ------
    InvalidInput
        If the scores leave the domain of the logarithm.
    """
    best = np.sort(gain)[::-1] @ (1.0 / np.log2(np.arange(2.0, len(gain) + 2.0)))
    if best <= 0.0:
        return float("nan"), np.zeros(len(scores))
    smooth = form == "sigmoid"
    centred = scores - scores.mean()
    spread = max(float(np.sqrt(np.mean(centred**2))), NARROWEST) if smooth else 1.0
    steps = SmoothSteps(scores * (alpha / spread))
    positions = 1.0 + steps.ranks()
    if smooth:
        positions = 1.0 + (positions - 1.0 + len(scores) - 1.0) / 2.0
    elif positions.min() <= 0.0:
        raise InvalidInput(
            "the scores leave the domain of s-ndcg as printed (a position is not above 0); use a smaller alpha or "
            "rate, or the form sigmoid"
        )
    value = float((gain / np.log2(1.0 + positions)).sum() / best)
    by_position = -gain / (np.log2(1.0 + positions) ** 2 * (1.0 + positions) * np.log(2.0) * best)
    slopes = steps.slopes(by_position) - by_position * steps.slopes(np.ones(len(scores)))
    slopes *= alpha / spread * (0.5 if smooth else 1.0)
    if smooth:  # the spread changes with the scores
        slopes -= centred * (float(slopes @ centred) / (len(scores) * spread**2))
    return value, slopes


def _decorrelating(Z: Floats) -> Floats:
    """Return a root of the inverse covariance of `Z` (n, d) with a ridge, which keeps small variances small.

    It is (d, d), or (d, n) for fewer images than features: scores have no part outside of what the images span.
    """
    if len(Z) < Z.shape[1]:
        _, deviations, directions = np.linalg.svd(Z / np.sqrt(len(Z)), full_matrices=False)
        return directions.T / np.sqrt(deviations**2 + RIDGE)
    variances, directions = np.linalg.eigh(Z.T @ Z / len(Z))
    return cast(Floats, (directions / np.sqrt(np.maximum(variances, 0.0) + RIDGE)) @ directions.T)


def hold_out_groups(
    groups: Integers, grades: Floats, share: float, generator: np.random.Generator
) -> NDArray[np.bool_]:
    """Select the images of random groups for validation.

    Parameters
    ----------
    groups : (n,) int
        Group of each image, numbered from 0.
    grades : (n,) float64
        Grades.
    share : float
        Share of the groups.
    generator : np.random.Generator
        Random numbers.

    Returns
    -------
    (n,) bool
        All False if either part would have a single grade.
    """
    order = generator.permutation(int(groups.max()) + 1)
    mask = np.isin(groups, order[: round(share * len(order))])
    for part in (grades[mask], grades[~mask]):
        if len(np.unique(part)) < 2:
            return np.zeros(len(groups), bool)
    return mask
