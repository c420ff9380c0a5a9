"""S-NDCG: a ranking function fitted by gradient ascent on NDCG with smooth positions (Huang et al. 2010, III)."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve

from cbir.errors import InvalidInput
from cbir.learn.models.kernel_ranker import Kernel, KernelRanker, Tuning
from cbir.learn.models.ranking_estimator import (
    ListSize,
    assign_lists,
    mean_or_nan,
    ndcg_gains,
    ndcg_of_lists,
    rows_by_list,
)

Floats = NDArray[np.float64]

EXACT = 1024  # longest list whose pairs are formed
SPACING = 0.02  # of the grid, where tanh has slope 1: an error below 4e-5 per pair
MOST = 2**17  # grid points


class SmoothSteps:
    """Sums over y of tanh(u_y - u_x), and of its slope, for values u (n,); O(n log n) for large n."""

    def __init__(self, values: Floats) -> None:
        self.exact = len(values) <= EXACT
        if self.exact:
            self._tanh = np.tanh(values[None, :] - values[:, None])
            self._slope = 1.0 - self._tanh**2
            return
        low = float(values.min())
        reach = float(values.max()) - low
        self._spacing = max(SPACING, reach / MOST)
        self._size = int(reach / self._spacing) + 2
        positions = (values - low) / self._spacing
        self._cell = positions.astype(np.int64)
        self._share = positions - self._cell
        offsets = self._spacing * np.arange(1 - self._size, self._size)
        self._kernel = np.tanh(offsets)

    def ranks(self) -> Floats:
        """Return (n,) the sum over y of tanh(u_y - u_x)."""
        if self.exact:
            return cast(Floats, self._tanh.sum(axis=1))
        return self._convolved(np.ones(len(self._cell)), -self._kernel)

    def slopes(self, weights: Floats) -> Floats:
        """Return (n,) the sum over y of weights_y tanh'(u_y - u_x), with `weights` (n,)."""
        if self.exact:
            return self._slope @ weights
        return self._convolved(weights, 1.0 - self._kernel**2)

    def _convolved(self, weights: Floats, kernel: Floats) -> Floats:
        grid = np.bincount(self._cell, weights * (1.0 - self._share), self._size)
        grid += np.bincount(self._cell + 1, weights * self._share, self._size)
        middle = fftconvolve(kernel, grid)[self._size - 1 : 2 * self._size - 1]
        return cast(Floats, middle[self._cell] * (1.0 - self._share) + middle[self._cell + 1] * self._share)


Integers = NDArray[np.int64]

NARROWEST = 1e-9  # least spread of scores


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


def mean_s_ndcg(
    scores: Floats, gain: Floats, lists: list[Integers], form: str, alpha: float
) -> tuple[float, Floats]:
    """Compute the mean S-NDCG of lists, and its gradient with respect to the scores.

    Parameters
    ----------
    scores, gain : (n,) float64
        Scores and gains of all images.
    lists : list of (m,) int
        Rows of each list; those without gain count as 0.
    form, alpha
        As for `s_ndcg`, which also raises.
    """
    total, slopes = 0.0, np.zeros(len(scores))
    for rows in lists:
        value, slopes[rows] = s_ndcg(scores[rows], gain[rows], form, alpha)
        total += 0.0 if np.isnan(value) else value
    return total / len(lists), slopes / len(lists)


ALPHA = {"sigmoid": 12.0, "paper": 0.001}
FUNCTIONS = ("linear", "exponential")
STARTS = ("regression", "zero")
HIGHEST = 30.0  # of the exponent of an exponential ranking function
RIDGE = 0.1  # added to the variances in the decorrelation of features
HALVINGS = 6  # of a step that does not climb, at most


class Ascent(NamedTuple):
    """Weights (r,) and the mean S-NDCG at the start and after each step."""

    weights: list[Floats]
    objective: list[float]


@dataclass(eq=False, repr=False)
class SNdcgRanker(KernelRanker):
    """Gradient ascent on the mean S-NDCG (eq. 8) of lists; the result is the step with the best NDCG in validation.

    Parameters
    ----------
    form : str
        "sigmoid": pi'(x) = 1 + sum over y != x of (1 + tanh(alpha (s_y - s_x) / spread of the list's scores)) / 2,
        always from 1 to n. A step is `rate` times as long as theta, of which only the direction matters, and is
        halved until S-NDCG rises; the chosen number of steps is repeated with all images.
        "paper": pi'(x) = 1 + sum over y != x of tanh(alpha (s_y - s_x)), and theta + rate * gradient, as printed,
        from theta 0; InvalidInput if scores leave the domain of the logarithm.
    function : str
        "linear": s = <theta, x>; "exponential": s = exp(<theta, x>).
    alpha : float, optional
        By default 12 for "sigmoid" and 0.001 for "paper".
    steps : int
        T; 0 with "sigmoid": the start itself, fitted to all images.
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
    start : str, optional
        Of "sigmoid". "regression", the default: ridge regression on the gains 2^grade - 1, and steps along
        decorrelated features. "zero": the direction of the first step from theta 0, without decorrelation; the only
        start of "paper".

    Attributes
    ----------
    chosen_ : int
        Best step; 0: the start.
    objective_ : list of float
        Mean S-NDCG of the lists in training at the start and after each step, `steps` at most.
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
    start: Literal["regression", "zero"] | None = None

    def _scale(self, count: int) -> float:
        if self.form == "paper":
            return 1.0  # no ridge
        return float(np.sqrt(RIDGE * count))  # the decorrelation has the ridge already, of mean products

    def _weights(self, Z: Floats, grades: Floats, groups: Integers) -> Floats:
        self._check()
        generator = np.random.default_rng(self.seed)
        mask = hold_out_groups(groups, grades, self.validation if self.steps else 0.0, generator)
        train = ~mask if mask.any() else np.ones(len(Z), bool)
        validation = mask if mask.any() else train
        ascend = self._ascend if self.form == "sigmoid" else self._ascend_as_printed
        ascent = ascend(Z[train], grades[train], self.steps, generator)
        lists = assign_lists(int(validation.sum()), self.list_size, generator)
        qualities = [
            mean_or_nan(ndcg_of_lists(Z[validation] @ weights, grades[validation], lists))
            for weights in ascent.weights
        ]
        if self.form == "paper":
            qualities[0] = -np.inf  # theta 0 orders nothing
        self.chosen_, self.objective_ = int(np.argmax(qualities)), ascent.objective
        if self.form == "sigmoid" and mask.any():
            return self._ascend(Z, grades, self.chosen_, generator).weights[-1]
        return ascent.weights[self.chosen_]

    def _check(self) -> None:
        if self.form not in ALPHA:
            raise InvalidInput(f"the form of s-ndcg is sigmoid or paper, not {self.form!r}")
        if self.function not in FUNCTIONS:
            raise InvalidInput(f"the function of s-ndcg is linear or exponential, not {self.function!r}")
        if self.start is not None and self.start not in STARTS:
            raise InvalidInput(f"the start of s-ndcg is regression or zero, not {self.start!r}")
        if self.form == "paper" and self.start == "regression":
            raise InvalidInput("s-ndcg of the form paper has the start zero")
        for name in ("alpha", "rate"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise InvalidInput(f"the {name} of s-ndcg must be a number above 0, not {value!r}")
        fewest = 1 if self.form == "paper" else 0
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < fewest:
            raise InvalidInput(f"the steps of s-ndcg are a whole number from {fewest}, not {self.steps!r}")
        if not 0 <= self.validation < 1:
            raise InvalidInput(f"validation is a share from 0 to below 1, not {self.validation!r}")

    def _ascend(self, Z: Floats, grades: Floats, steps: int, generator: np.random.Generator) -> Ascent:
        """Climb from the start, until no step of a sixty-fourth of the length rises."""
        basis = np.eye(Z.shape[1]) if self.start == "zero" else _decorrelating(Z)
        W, gain = Z @ basis, ndcg_gains(grades)
        lists = rows_by_list(assign_lists(len(W), self.list_size, generator))
        theta = W.T @ (gain - gain.mean())  # of decorrelated features: ridge regression
        theta /= max(float(np.std(W @ theta)), NARROWEST)
        value, gradient = self._objective(theta, W, gain, lists)
        weights, objective = [theta], [value]
        for _ in range(steps):
            if (length := float(np.linalg.norm(gradient))) <= NARROWEST:
                break
            step = gradient * (self.rate * float(np.linalg.norm(theta)) / length)
            for _ in range(HALVINGS + 1):
                trial, slope = self._objective(theta + step, W, gain, lists)
                if trial > value:
                    break
                step /= 2.0
            else:
                break
            theta, value, gradient = theta + step, trial, slope
            weights.append(theta)
            objective.append(value)
        return Ascent([basis @ theta for theta in weights], objective)

    def _ascend_as_printed(
        self, Z: Floats, grades: Floats, steps: int, generator: np.random.Generator
    ) -> Ascent:
        """Repeat theta + rate * gradient from theta 0 (Table I)."""
        gain, theta = ndcg_gains(grades), np.zeros(Z.shape[1])
        lists = rows_by_list(assign_lists(len(Z), self.list_size, generator))
        value, gradient = self._objective(theta, Z, gain, lists)
        weights, objective = [theta], [value]
        for _ in range(steps):
            theta = theta + self.rate * gradient
            value, gradient = self._objective(theta, Z, gain, lists)
            weights.append(theta)
            objective.append(value)
        return Ascent(weights, objective)

    def _objective(
        self, theta: Floats, W: Floats, gain: Floats, lists: list[Integers]
    ) -> tuple[float, Floats]:
        """Return the mean S-NDCG and its gradient (r,) with respect to `theta` (r,)."""
        scores = self._outputs(W @ theta)
        alpha = ALPHA[self.form] if self.alpha is None else self.alpha
        value, slopes = mean_s_ndcg(scores, gain, lists, self.form, alpha)
        return value, W.T @ (slopes if self.function == "linear" else slopes * scores)

    def _outputs(self, products: Floats) -> Floats:
        return products if self.function == "linear" else np.exp(np.clip(products, -HIGHEST, HIGHEST))

    def _scores(self, Z: Floats) -> Floats:
        return self._outputs(self._products(Z))


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
