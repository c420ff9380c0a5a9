"""A study under way: who is asked what next, what was said, and when there is something to learn."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import RLock

import numpy as np

from cbir.active import judgement_journal
from cbir.active.judgement_journal import Journal, PairAnswer, PairJudgement, Undo
from cbir.active.pair_selection import first_pairs, select_pairs, share_of
from cbir.active.study import study_models, study_rounds
from cbir.active.study.study_plan import StudyPlan
from cbir.active.study.study_rounds import AskedPair, StudyRound
from cbir.errors import InvalidInput

JOURNAL = "judgements.jsonl"

Key = tuple[str, str]


class Study:
    """Thread-safe; one process at a time. Every round it makes is on the disk before anybody is asked.

    The next round is made before one is full, from what was learnt until then: nobody waits for the ranker. Once that
    has learnt, `learnt` puts better pairs in the place of those that nobody has judged yet.
    """

    def __init__(self, folder: Path, ids: Sequence[str], plan: StudyPlan) -> None:
        """Open or begin the study in `folder` of a collection's images `ids`; raises InvalidInput, CollectionBusy."""
        self.folder, self.ids, self.plan = folder, list(ids), plan
        self._row = {image: row for row, image in enumerate(self.ids)}
        self._lock = RLock()
        self._handed: dict[Key, str] = {}  # to whom a pair was given last, while the server runs
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.journal = Journal(folder / JOURNAL)
        try:
            self.rounds = study_rounds.read(folder)
            self._check_images()
            self._sum_up()
            self._model = study_models.latest_model(folder)
            if not self.rounds:
                self._begin()
            self._advance()
        except BaseException:
            self.journal.close()
            raise

    def _check_images(self) -> None:
        asked = [one for part in self.rounds for one in part.pairs]
        if asked and not any(self._is_there(one) for one in asked):
            raise InvalidInput(
                f"none of the images that {self.folder} asks about is in the collection; name the collection that "
                "the study was begun with, or another folder for a new study"
            )

    def _begin(self) -> None:
        made = first_pairs(len(self.ids), self.plan.start, None, self._rng(1, 0))
        self._keep(1, [], made.tolist(), provisional=False)

    # What is said

    def judge(self, entry: PairJudgement | Undo) -> bool:
        """Write an entry; whether it is new. Raises what `Journal.add` does."""
        added = self.journal.add(entry)
        with self._lock:
            self._sum_up()
            self._advance()
        return added

    def _sum_up(self) -> None:
        self.standing = judgement_journal.valid_judgements(self.journal.entries)
        self._said: dict[Key, dict[str, PairJudgement]] = {}
        for one in self.standing:
            self._said.setdefault(one.pair, {})[one.who] = one

    def last_of(self, who: str, count: int) -> list[PairJudgement]:
        """The last standing judgements of a person, the newest last."""
        return [one for one in self.standing if one.who == who][-count:]

    # What is asked

    @property
    def current(self) -> StudyRound:
        """The first round that is not full, else the last."""
        return next((part for part in self.rounds if not self.is_full(part)), self.rounds[-1])

    def round_of(self, first: str, second: str) -> int:
        """The round that asks for a pair, the current one where none does."""
        key = AskedPair(first, second).pair
        found = (part.number for part in reversed(self.rounds) for one in part.pairs if one.pair == key)
        return next(found, self.current.number)

    def next_pairs(self, who: str, count: int) -> list[AskedPair]:
        """Up to `count` pairs for a person, in order: earlier rounds first, what others look at just now last.

        Towards the end of a round the first ones of the next come along, so that nobody waits between two.
        """
        with self._lock:
            open_ = self._open(who)
            if len(open_) < count and self.rounds[-1] is self.current:
                self._add_round()
                open_ = self._open(who)
            others = [one for one in open_ if not one.everybody and self._handed.get(one.pair, who) != who]
            found = ([one for one in open_ if one not in set(others)] + others)[:count]
            self._handed |= {one.pair: who for one in found if one not in set(others)}
            return found

    def _open(self, who: str) -> list[AskedPair]:
        return [one for part in self.rounds for one in part.pairs if self._is_open(one, who)]

    def _is_open(self, one: AskedPair, who: str) -> bool:
        said = self._said.get(one.pair, {})
        if who in said or not self._is_there(one):
            return False
        return one.everybody or all(other.answer is PairAnswer.skip for other in said.values())

    def _is_there(self, one: AskedPair) -> bool:
        return one.first in self._row and one.second in self._row

    def done(self, part: StudyRound) -> tuple[int, int]:
        """How many pairs of a round somebody has answered or skipped, of how many."""
        there = [one for one in part.pairs if self._is_there(one)]
        return sum(one.pair in self._said for one in there), len(there)

    def is_full(self, part: StudyRound) -> bool:
        """Whether somebody has answered or skipped every pair of a round."""
        done, of = self.done(part)
        return done == of

    @property
    def finished(self) -> bool:
        """Whether all rounds are full, or all pairs of the collection were asked."""
        return self.is_full(self.current) and (len(self.rounds) >= self.plan.rounds or self._exhausted())

    def _exhausted(self) -> bool:
        return len(self._asked()) >= math.comb(len(self.ids), 2)

    # What is learnt

    @property
    def model(self) -> study_models.TrainedModel | None:
        """What the ranker said last."""
        return self._model

    def to_learn(self) -> int | None:
        """The last full round, where the ranker has not learnt from it yet; None where there is nothing to do."""
        with self._lock:
            full = self.current.number - (not self.is_full(self.current))
            done = self._model.after if self._model else 0
            return (
                full
                if full > done and any(one.answer is not PairAnswer.skip for one in self.standing)
                else None
            )

    def learnt(self) -> None:
        """Read what the ranker has learnt, and choose anew what nobody has judged of the current round."""
        with self._lock:
            self._model = study_models.latest_model(self.folder)
            for part in list(self.rounds):
                if self._model and part.provisional and not self.is_full(part):
                    kept = [one for one in part.pairs if one.pair in self._said]
                    chosen = self._chosen(kept, part.number)
                    self._keep(part.number, kept, chosen, self._model.after < part.number - 1)
            self._advance()

    def _advance(self) -> None:
        """Make the next round where all are full."""
        while self.is_full(self.rounds[-1]) and self._add_round():
            pass

    def _add_round(self) -> bool:
        """Make one more round; False where there is to be none, or no pair is left."""
        number = len(self.rounds) + 1
        if number > self.plan.rounds or self._exhausted():
            return False
        after = self._model.after if self._model else 0
        self._keep(number, [], self._chosen([], number), after < number - 1)
        return True

    def _chosen(self, kept: Sequence[AskedPair], number: int) -> list[list[int]]:
        """Pairs of rows for round `number`, besides those that are kept."""
        images = max(2, share_of(self.plan.step, len(self.ids))) - len(kept)
        if images <= 0:
            return []
        asked = self._asked(number) | {one.pair for one in kept}
        rows = [(self._row[first], self._row[second]) for first, second in asked]
        rng = self._rng(number, self._model.after + 1 if self._model else 0)
        severity, seen = self._model.of(self.ids) if self._model else (None, np.ones(len(self.ids), bool))
        # Nothing was learnt yet, or the strategy finds nothing new: any pair is better than none.
        if severity is not None:
            found = select_pairs(self.plan.strategy, severity, rows, images, rng, seen).tolist()
            if found:
                return list(found)
        return list(select_pairs("random", None, rows, images, rng, np.ones(len(self.ids), bool)).tolist())

    def _asked(self, before: float = math.inf) -> set[Key]:
        """Every pair of present images that stands in a round before that one, or was judged."""
        parts = (part for part in self.rounds if part.number < before)
        asked = {one.pair for part in parts for one in part.pairs} | self._said.keys()
        return {key for key in asked if key[0] in self._row and key[1] in self._row}

    def _keep(
        self, number: int, kept: Sequence[AskedPair], rows: Iterable[Sequence[int]], provisional: bool
    ) -> None:
        made = [(self.ids[first], self.ids[second]) for first, second in rows]
        self._rng(number, 1_000_000).shuffle(made)
        shared = round(self.plan.overlap * len(made))
        pairs = [*kept, *(AskedPair(*pair, place < shared) for place, pair in enumerate(made))]
        one = StudyRound(number=number, provisional=provisional, pairs=tuple(pairs))
        study_rounds.keep(self.folder, one)
        self.rounds[number - 1 : number] = [one]

    def _rng(self, *place: int) -> np.random.Generator:
        return np.random.default_rng([self.plan.seed, *place])

    def close(self) -> None:
        """Let go of the journal."""
        self.journal.close()
