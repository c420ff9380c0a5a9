"""A running study: next pairs for each person, recorded judgements, and when to train."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import RLock

import numpy as np

from cbir.errors import InvalidInput
from cbir.learn.severity.stored_images import matching_records
from cbir.store import Collection
from cbir.store.collection_address import address_or_folder
from cbir.system.files import private_folder
from service.features.annotate import study_files
from service.features.annotate.active import judgement_journal
from service.features.annotate.active.judgement_journal import (
    ImageGrade,
    Journal,
    PairAnswer,
    PairJudgement,
    Undo,
)
from service.features.annotate.active.pair_selection import select_pairs, share_of, starting_pairs
from service.features.annotate.image_queue import ImageQueue
from service.features.annotate.study_files import AskedPair, StudyRound
from service.features.annotate.study_plan import StudyPlan, read_plan

MIN_NEW_GRADES, MAX_NEW_GRADES = 8, 50  # since the latest training, before the next one
Key = tuple[str, str]


class Study:
    """Rounds, judgements and the latest model of a study. Thread-safe; one process at a time.

    Each round is on disk before its pairs are handed out. The next round is created before the current one is
    complete, from the latest model, so that no one waits for training. After training, `reload_model` replaces the
    pairs that no one has judged yet by better ones.
    """

    def __init__(self, folder: Path, ids: Sequence[str], plan: StudyPlan) -> None:
        """Open or start the study in `folder`, over the images `ids` of a collection, according to `plan`.

        Raises InvalidInput if the study does not match the collection, CollectionBusy if another process uses it.
        """
        self.folder, self.ids, self.plan = folder, list(ids), plan
        self._row = {image_id: row for row, image_id in enumerate(self.ids)}
        self._lock = RLock()
        self._assigned: dict[Key, str] = {}  # the person who got a pair last, in memory only
        private_folder(folder)
        self.journal = Journal(study_files.journal_path(folder))
        try:
            self.rounds = study_files.read_rounds(folder)
            pairs = [pair for round_ in self.rounds for pair in round_.pairs]
            if pairs and not any(self._is_present(pair) for pair in pairs):
                raise InvalidInput(
                    f"none of the images of the study {folder} is in the collection; use the collection that the "
                    "study was started with, or another folder for a new study"
                )
            self._index_judgements()
            self.model = study_files.latest_model(folder)  # None before the first training
            self.images = ImageQueue(self.ids, plan)
            if not self.rounds:
                study_files.require_no_judgements(folder)
                first = starting_pairs(self.plan.strategy, len(self.ids), self.plan.start, self._rng(1, 0))
                self._store_round(1, [], first.tolist(), provisional=False)
            self._advance()
        except BaseException:
            self.journal.close()
            raise

    # Judgements

    def judge(self, entry: PairJudgement | ImageGrade | Undo) -> bool:
        """Record an entry; return True if it is new.

        Raises the errors of `Journal.add`, and InvalidInput for a grade that the plan does not have, or for an image
        that is not of the study: an answer about an image lets the pages show it.
        """
        for image in _images_of(entry):
            if not self.shows(image):
                raise InvalidInput(f"the study has no image {image}")
        if isinstance(entry, ImageGrade) and entry.grade is not None and entry.grade not in self.plan.grades:
            choice = ", ".join(f"{grade:g}" for grade in self.plan.grades) or "none; start with --grades"
            raise InvalidInput(f"grade: {entry.grade:g} is no grade of this study; it has {choice}")
        added = self.journal.add(entry)
        with self._lock:
            self._index_judgements()
            self._advance()
        return added

    def _index_judgements(self) -> None:
        self.judgements = judgement_journal.valid_judgements(self.journal.entries)
        self.image_answers = judgement_journal.valid_grades(self.journal.entries)
        self.grades = [answer for answer in self.image_answers if answer.grade is not None]
        self._by_pair: dict[Key, dict[str, PairJudgement]] = {}
        for judgement in self.judgements:
            self._by_pair.setdefault(judgement.pair, {})[judgement.who] = judgement

    def latest_judgements(self, who: str, count: int) -> list[PairJudgement]:
        """Return up to `count` of the latest valid judgements of the person `who`, oldest first."""
        return [judgement for judgement in self.judgements if judgement.who == who][-count:]

    def latest_answers(self, who: str, count: int) -> list[PairJudgement | ImageGrade]:
        """Return up to `count` of the latest valid judgements and grades of the person `who`, oldest first."""
        answers: list[PairJudgement | ImageGrade] = [*self.judgements, *self.image_answers]
        valid = {answer.name for answer in answers if answer.who == who}
        entries = [
            entry for entry in self.journal.entries if entry.name in valid and not isinstance(entry, Undo)
        ]
        return entries[-count:]

    def shows(self, image: str) -> bool:
        """Return whether the pages of the study show an image: to judge, as a reference, or from an earlier round."""
        with self._lock:
            return (
                image in self._row
                or any(image == reference.image for reference in self.plan.references)
                or any(image in pair.pair for round_ in self.rounds for pair in round_.pairs)
                or any(image in pair for pair in self._by_pair)
                or any(image == answer.image for answer in self.image_answers)
            )

    # Rounds and pairs

    @property
    def current(self) -> StudyRound:
        """The first incomplete round, or the last round."""
        return next((round_ for round_ in self.rounds if not self.is_complete(round_)), self.rounds[-1])

    def round_of(self, first: str, second: str) -> int:
        """Return the number of the round that contains the pair of `first` and `second`, else the current one."""
        key = AskedPair(first, second).pair
        rounds = (
            round_ for round_ in reversed(self.rounds) if any(pair.pair == key for pair in round_.pairs)
        )
        return next(rounds, self.current).number

    def next_pairs(self, who: str, count: int) -> list[AskedPair]:
        """Return up to `count` pairs for the person `who`.

        Pairs of earlier rounds come first, pairs that others are judging last. Near the end of a round the first
        pairs of the next one are included, so that no one waits between rounds.
        """
        with self._lock:
            available = self._open_pairs(who)
            if len(available) < count and self.rounds[-1] is self.current:
                self._add_round()
                available = self._open_pairs(who)
            others = {key for key, person in self._assigned.items() if person != who}
            busy = {pair for pair in available if not pair.everybody and pair.pair in others}
            pairs = sorted(available, key=lambda pair: pair in busy)[:count]
            self._assigned |= {pair.pair: who for pair in pairs if pair not in busy}
            return pairs

    def next_images(self, who: str, count: int) -> list[str]:
        """Return up to `count` images for the person `who` to grade; see `ImageQueue`."""
        with self._lock:
            severity, is_known = self.model.of(self.ids) if self.model else (None, None)
            return self.images.next_images(who, count, self.image_answers, severity, is_known)

    def _open_pairs(self, who: str) -> list[AskedPair]:
        return [pair for round_ in self.rounds for pair in round_.pairs if self._is_open(pair, who)]

    def _is_open(self, pair: AskedPair, who: str) -> bool:
        judgements = self._by_pair.get(pair.pair, {})
        if who in judgements or not self._is_present(pair):
            return False
        return pair.everybody or all(other.answer is PairAnswer.skip for other in judgements.values())

    def _is_present(self, pair: AskedPair) -> bool:
        return pair.first in self._row and pair.second in self._row

    def count_judged(self, round_: StudyRound) -> tuple[int, int]:
        """Return the number of pairs in `round_` that were judged or skipped, and the number of all its pairs."""
        present = [pair for pair in round_.pairs if self._is_present(pair)]
        return sum(pair.pair in self._by_pair for pair in present), len(present)

    def is_complete(self, round_: StudyRound) -> bool:
        """Return True if every pair of `round_` was judged or skipped."""
        judged, total = self.count_judged(round_)
        return judged == total

    @property
    def finished(self) -> bool:
        """True if all rounds are complete, or no new pair is left."""
        no_more = len(self.rounds) >= self.plan.rounds or self._is_exhausted()
        return self.is_complete(self.current) and no_more

    def _is_exhausted(self) -> bool:
        return len(self._used_pairs()) >= math.comb(len(self.ids), 2)

    # Training

    @property
    def _trained(self) -> int:
        """Number of the last round that was trained on, from 1."""
        return self.model.after if self.model else 0

    @property
    def _trained_entries(self) -> int:
        """Number of entries of the journal that the latest model was trained on."""
        return self.model.entries if self.model else 0

    def round_to_train(self) -> int | None:
        """Return the number of the last complete round, 0 for none, if there is something to train on; else None.

        That is a round that has not been trained on, enough grades since the latest training or, once the study is
        finished, any entry since then: a second opinion, or an answer that was undone and given again.
        """
        with self._lock:
            complete = self.current.number - (not self.is_complete(self.current))
            has_answers = any(judgement.answer is not PairAnswer.skip for judgement in self.judgements)
            is_new = complete > self._trained or (
                self.finished and len(self.journal.entries) > self._trained_entries
            )
            if is_new and (has_answers or self.grades):
                return complete
            return complete if self._has_enough_grades() else None

    def _has_enough_grades(self) -> bool:
        """Return True if a step of the single images, or the last one, was graded since the latest training."""
        new = sum(isinstance(entry, ImageGrade) for entry in self.journal.entries[self._trained_entries :])
        return bool(self.grades) and new >= self._grades_before_training()

    def _grades_before_training(self) -> int:
        if {answer.image for answer in self.image_answers} >= self._row.keys():
            return 1
        step = share_of(self.plan.step, len(self.ids))
        return min(max(step, MIN_NEW_GRADES), MAX_NEW_GRADES)

    def reload_model(self) -> None:
        """Load the latest model and select new pairs in place of those that no one has judged yet."""
        with self._lock:
            self.model = study_files.latest_model(self.folder)
            for round_ in list(self.rounds):
                if self.model and round_.provisional and not self.is_complete(round_):
                    self._fill_round(
                        round_.number, [pair for pair in round_.pairs if pair.pair in self._by_pair]
                    )
            self._advance()

    def _advance(self) -> None:
        """Add rounds while the last one is complete."""
        while self.is_complete(self.rounds[-1]) and self._add_round():
            pass

    def _add_round(self) -> bool:
        """Add a round; return False if the plan has no more rounds or no pair is left."""
        number = len(self.rounds) + 1
        if number > self.plan.rounds or self._is_exhausted():
            return False
        self._fill_round(number, [])
        return True

    def _fill_round(self, number: int, judged: Sequence[AskedPair]) -> None:
        """Store round `number` with the pairs `judged` and new ones."""
        self._store_round(number, judged, self._select(judged, number), self._trained < number - 1)

    def _select(self, judged: Sequence[AskedPair], number: int) -> list[list[int]]:
        """Select pairs of rows for round `number`, in addition to its `judged` pairs."""
        images = max(2, share_of(self.plan.step, len(self.ids))) - len(judged)
        if images <= 0:
            return []
        used = self._used_pairs(number) | {pair.pair for pair in judged}
        rows = [(self._row[first], self._row[second]) for first, second in used]
        rng = self._rng(number, self.model.after + 1 if self.model else 0)
        if self.model and self.model.serves(self.plan.strategy):
            severity, seen = self.model.of(self.ids)
            if pairs := select_pairs(self.plan.strategy, severity, rows, images, rng, seen).tolist():
                return list(pairs)
        # Without a model for the strategy, or if it has no new pair, any pair is better than none.
        return list(select_pairs("random", None, rows, images, rng, np.ones(len(self.ids), bool)).tolist())

    def _used_pairs(self, before: float = math.inf) -> set[Key]:
        """Return all pairs of present images in rounds with a number below `before`, and all judged pairs."""
        rounds = (round_ for round_ in self.rounds if round_.number < before)
        used = {pair.pair for round_ in rounds for pair in round_.pairs} | self._by_pair.keys()
        return {key for key in used if key[0] in self._row and key[1] in self._row}

    def _store_round(
        self, number: int, judged: Sequence[AskedPair], rows: Iterable[Sequence[int]], provisional: bool
    ) -> None:
        new = [(self.ids[first], self.ids[second]) for first, second in rows]
        self._rng(number, 1_000_000).shuffle(new)
        shared = round(self.plan.overlap * len(new))
        pairs = [*judged, *(AskedPair(*pair, position < shared) for position, pair in enumerate(new))]
        round_ = StudyRound(number=number, provisional=provisional, pairs=tuple(pairs))
        study_files.store_round(self.folder, round_)
        self.rounds[number - 1 : number] = [round_]

    def _rng(self, *keys: int) -> np.random.Generator:
        return np.random.default_rng([self.plan.seed, *keys])

    def close(self) -> None:
        """Close the journal."""
        self.journal.close()


def _images_of(entry: PairJudgement | ImageGrade | Undo) -> tuple[str, ...]:
    """Return the images that an entry is about."""
    if isinstance(entry, Undo):
        return ()
    return entry.pair if isinstance(entry, PairJudgement) else (entry.image,)


def open_study(collection: Path, folder: Path) -> Study:
    """Open the study in `folder`, which must have a plan, over the images of `collection` that meet its conditions.

    Raises the errors of `Study`.
    """
    settled_plan = read_plan(folder)
    with Collection(collection) as opened:
        where = opened.conditions(settled_plan.where)
        ids = [record.image_id for _, record in matching_records(opened, where)]
    if len(ids) < 2:
        raise InvalidInput(
            f"{len(ids)} images of {address_or_folder(collection)} fulfil the conditions of the study, and comparing "
            "needs two; start it with another --where, or --where none"
        )
    return Study(folder, ids, settled_plan)
