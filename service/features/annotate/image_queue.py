"""Images of a study to grade one by one, in the order in which their grades say most."""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from cbir.learn.severity.judged_pairs import SeverityEstimate
from service.features.annotate.active.candidate_pool import BINS, severity_bins, take_turns
from service.features.annotate.active.judgement_journal import ImageGrade
from service.features.annotate.study_plan import StudyPlan


class ImageQueue:
    """Chooses images for each person; the share `overlap` of the plan is graded by everyone.

    Before the first training the order is random. Then bins of equal width of the estimated severity take turns,
    those with the fewest grades first, and each gives its most uncertain image: grades come from the whole scale.
    """

    def __init__(self, ids: Sequence[str], plan: StudyPlan) -> None:
        self.ids = list(ids)
        self._row = {image_id: row for row, image_id in enumerate(self.ids)}
        draws = np.array([_draw(plan.seed, image_id) for image_id in ids], np.float64).reshape(-1, 2)
        self._order, self._is_shared = draws[:, 0], draws[:, 1] < plan.overlap
        self._assigned: dict[str, str] = {}  # the person who got an image last, in memory only

    def next_images(
        self, who: str, count: int, answers: Sequence[ImageGrade], severity: SeverityEstimate | None,
        is_known: NDArray[np.bool_] | None,
    ) -> list[str]:  # fmt: skip
        """Return the next images for a person; those that others are grading come last.

        Parameters
        ----------
        who : str
            The person.
        count : int
            Maximum number of images.
        answers : sequence of ImageGrade
            Valid grades of all people, and images that they could not judge.
        severity : SeverityEstimate, optional
            Of all n images; None before the first training.
        is_known : (n,) bool, optional
            Images that `severity` has.

        Returns
        -------
        list of str
        """
        answered = {answer.image for answer in answers if answer.who == who}
        graded = {answer.image for answer in answers if answer.grade is not None}
        is_graded = self._mask(graded)
        is_open = ~self._mask(answered) & (self._is_shared | ~is_graded)
        rows = np.flatnonzero(is_open)
        if not len(rows):
            return []
        busy = {image for image, person in self._assigned.items() if person != who}
        is_busy = self._mask(busy)[rows] & ~self._is_shared[rows]
        sequence = self._sequence(rows, is_graded, severity, is_known)
        selected = sequence[np.argsort(is_busy[sequence], kind="stable")][:count]
        images = [self.ids[row] for row in rows[selected]]
        free = {
            image
            for image, is_assigned in zip(images, is_busy[selected].tolist(), strict=True)
            if not is_assigned
        }
        self._assigned |= dict.fromkeys(free, who)
        return images

    def _mask(self, images: Iterable[str]) -> NDArray[np.bool_]:
        """Return for each image of the study whether it is one of `images` (n,)."""
        mask = np.zeros(len(self.ids), bool)
        mask[[self._row[image] for image in images if image in self._row]] = True
        return mask

    def _sequence(
        self,
        rows: NDArray[np.int64],
        is_graded: NDArray[np.bool_],
        severity: SeverityEstimate | None,
        is_known: NDArray[np.bool_] | None,
    ) -> NDArray[np.int64]:
        """Return the positions of `rows` in the order in which people get them."""
        draws = self._order[rows]
        if severity is None or is_known is None or not is_known[rows].any():
            return np.argsort(draws)
        known_rows = np.flatnonzero(is_known[rows])
        bin_of = severity_bins(severity.mean[is_known])
        bins_of_all = np.full(len(self.ids), -1)
        bins_of_all[is_known] = bin_of
        done = np.bincount(bins_of_all[is_graded & is_known], minlength=BINS)
        position = take_turns(
            bins_of_all[rows[known_rows]],
            -severity.variance[rows[known_rows]],
            len(known_rows),
            np.random.default_rng(0),
        )
        turn = (
            _turn_within(bins_of_all[rows[known_rows]][position])
            + done[bins_of_all[rows[known_rows]][position]]
        )
        ranked = known_rows[position[np.argsort(turn, kind="stable")]]
        rest = np.flatnonzero(~is_known[rows])
        return np.concatenate([ranked, rest[np.argsort(draws[rest])]])


def _turn_within(bins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often each value of `bins` (n,) has come before."""
    turns, seen = np.empty(len(bins), np.int64), np.zeros(BINS, np.int64)
    for position, value in enumerate(bins.tolist()):
        turns[position] = seen[value]
        seen[value] += 1
    return turns


def _draw(seed: int, image_id: str) -> tuple[float, float]:
    """Return two numbers from 0 to 1 that stay the same for an image, also when others are added."""
    digest = hashlib.sha256(f"{seed} {image_id}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48, int.from_bytes(digest[6:12], "big") / 2**48
