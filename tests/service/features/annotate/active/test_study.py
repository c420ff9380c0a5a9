"""Rounds: who is asked what, when the next begins, and that a restart goes on with the same queue."""

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cbir.errors import CollectionBusy, InvalidInput
from cbir.learn.severity.judged_pairs import SeverityEstimate
from service.features.annotate import study_files, study_plan
from service.features.annotate.active.judgement_journal import (
    ImageGrade,
    PairAnswer,
    PairJudgement,
    Undo,
    read_journal,
    utc_now,
)
from service.features.annotate.study import Study
from service.features.annotate.study_files import JOURNAL, AskedPair, journal_path
from service.features.annotate.study_training import FAILED, STOPPED, training_grades, training_pairs

IDS = [f"{number:032x}" for number in range(20)]
PLAN = study_plan.StudyPlan(strategy="variance", rounds=3, start=0.3, step=0.2, overlap=0.34)

Opening = Callable[..., Study]


@pytest.fixture
def opening(tmp_path: Path) -> Iterator[Opening]:
    """Opens the study of the test, as often as wanted; the one before is closed."""
    opened: list[Study] = []

    def again(settings: study_plan.StudyPlan = PLAN, ids: list[str] = IDS) -> Study:
        if opened:
            opened[-1].close()
        opened.append(Study(tmp_path / "study", ids, settings))
        return opened[-1]

    yield again
    for one in opened:
        one.close()


def judge(study: Study, asked: AskedPair, answer: str = "first", who: str = "Ada") -> PairJudgement:
    said = PairJudgement(
        name=f"judgement-{len(study.journal.entries)}",
        at=utc_now(),
        who=who,
        seconds=1,
        first=asked.first,
        second=asked.second,
        answer=PairAnswer(answer),
        round=study.round_of(asked.first, asked.second),
    )
    study.judge(said)
    return said


def give_grade(study: Study, image: str, grade: float, who: str = "Ada") -> ImageGrade:
    name = f"grade-{len(study.journal.entries):03d}"
    given = ImageGrade(name=name, at=utc_now(), who=who, seconds=9, image=image, grade=grade)
    study.judge(given)
    return given


def judge_round(study: Study, who: str = "Ada") -> None:
    number = study.current.number
    while study.current.number == number and (found := study.next_pairs(who, 1)):
        judge(study, found[0], who=who)


def has_learnt(
    study: Study, after: int, ids: list[str] = IDS, encoded: NDArray[np.float32] | None = None
) -> None:
    """A ranker that is least sure of the last images, on the disk."""
    count = len(ids)
    mean, variance = np.arange(count, dtype=np.float32), np.arange(count, dtype=np.float32)
    severity = SeverityEstimate(mean, variance, np.eye(count, dtype=np.float32), None, encoded)

    class Ranker:
        def save(self, folder: Path, facts: dict[str, int]) -> None:
            folder.mkdir(parents=True)

    entries = len(study.journal.entries)
    study_files.store_trained_model(study.folder, Ranker(), after, 9, ids, severity, entries)  # type: ignore[arg-type]
    study.reload_model()


def test_first_round(opening: Opening) -> None:
    study = opening()
    (one,) = study.rounds
    assert not one.provisional
    assert len({asked.pair for asked in one.pairs}) == len(one.pairs) == 6
    assert sum(asked.everybody for asked in one.pairs) == 2
    assert study.count_judged(one) == (0, 6)
    assert study.round_to_train() is None
    assert not study.finished


def test_a_restart_goes_on_with_the_same_queue(opening: Opening) -> None:
    study = opening()
    for asked in study.next_pairs("Ada", 2):
        judge(study, asked)
    queue, rounds = study.next_pairs("Ada", 4), study.rounds
    assert len(queue) == 4
    study = opening()
    assert study.next_pairs("Ada", 4) == queue
    assert study.rounds == rounds
    assert study.count_judged(study.current) == (2, 6)


def test_nobody_waits_for_the_ranker_and_better_pairs_take_over(opening: Opening) -> None:
    study = opening()
    judge_round(study)
    assert (study.current.number, study.current.provisional, study.round_to_train()) == (2, True, 1)
    judge(study, study.next_pairs("Ada", 1)[0])
    before = study.current
    has_learnt(study, 1)
    now_asked = study.current
    assert (now_asked.number, now_asked.provisional, study.round_to_train()) == (2, False, None)
    judged = [one for one in before.pairs if one.pair in {said.pair for said in study.judgements}]
    assert list(now_asked.pairs[:1]) == judged
    new = {image for one in now_asked.pairs[1:] for image in one[:2]}
    assert set(IDS[-3:]) <= new  # the least sure of all
    earlier = {one.pair for one in study.rounds[0].pairs}
    assert not earlier & {one.pair for one in now_asked.pairs}
    assert opening().current == now_asked


def test_the_next_round_is_there_before_one_ends(opening: Opening) -> None:
    study = opening()
    queue = study.next_pairs("Ada", 8)
    assert len(queue) == 8
    assert [part.provisional for part in study.rounds] == [False, True]
    assert study.current.number == 1
    for asked in queue[:7]:
        judge(study, asked)
    assert (study.current.number, study.count_judged(study.current)[0], study.round_to_train()) == (2, 1, 1)
    has_learnt(study, 1)
    assert queue[6] in study.current.pairs, "what was judged stays"
    assert not study.current.provisional
    pairs = [one.pair for part in study.rounds for one in part.pairs]
    assert len(set(pairs)) == len(pairs)


def test_rounds_end(opening: Opening) -> None:
    study = opening()
    for after in (1, 2):
        judge_round(study)
        has_learnt(study, after)
    judge_round(study)
    assert (study.current.number, study.finished, study.round_to_train()) == (3, True, 3)
    assert study.next_pairs("Ada", 5) == []
    has_learnt(study, 3)
    assert study.round_to_train() is None
    pairs = [one.pair for part in study.rounds for one in part.pairs]
    assert len(set(pairs)) == len(pairs) == len(study.judgements)
    study = opening()
    assert (study.finished, study.round_to_train()) == (True, None)
    assert not opening(PLAN.model_copy(update={"rounds": 4})).finished


def test_answers_after_the_last_round_are_learnt(opening: Opening) -> None:
    plan = PLAN.model_copy(update={"rounds": 1})
    study = opening(plan)
    judge_round(study)
    before = len(study.journal.entries)
    has_learnt(study, 1)
    assert study.round_to_train() is None
    second_opinion = study.next_pairs("Bob", 1)[0]
    judge(study, second_opinion, "second", "Bob")
    assert (study.finished, study.round_to_train()) == (True, 1)
    study = opening(plan)
    assert study.round_to_train() == 1, "after a restart, too"
    has_learnt(study, 1)
    assert (study.round_to_train(), study.model.entries) == (None, before + 1)  # type: ignore[union-attr]
    last = study.latest_judgements("Ada", 1)[0]
    study.judge(Undo(name="take-back-1", at=utc_now(), who="Ada", undoes=last.name))
    assert study.round_to_train() is None, "the round is not complete"
    judge(study, AskedPair(last.first, last.second), "second")
    assert study.round_to_train() == 1
    for _ in range(3):
        has_learnt(study, 1)
    assert len(list((study.folder / study_files.MODELS).iterdir())) <= 2


def test_a_model_of_an_earlier_version_is_read_and_replaced(opening: Opening) -> None:
    study = opening(PLAN.model_copy(update={"rounds": 1}))
    judge_round(study)
    has_learnt(study, 1)
    assert study.model is not None
    arrays = dict(np.load(study.model.folder / study_files.SEVERITY))
    del arrays["entries"]
    np.savez(study.model.folder / study_files.SEVERITY, **arrays)
    study.model.folder.rename(study.folder / study_files.MODELS / "0001")
    study = opening(PLAN.model_copy(update={"rounds": 1}))
    assert study.model is not None
    assert (study.model.after, study.model.entries, study.round_to_train()) == (1, 0, 1)
    has_learnt(study, 1)
    assert (study.model.entries, study.round_to_train()) == (6, None)


def test_the_encoders_features_are_kept_for_the_strategy_that_needs_them(opening: Opening) -> None:
    plan = PLAN.model_copy(update={"strategy": "core-set-encoder", "encoder": "lite0-max"})
    study = opening(plan)
    judge_round(study)
    used = np.isin(IDS, [image for pair in study.rounds[0].pairs for image in pair.pair])
    far = np.flatnonzero(~used)[:4]
    encoded = np.zeros((len(IDS), 2), np.float32)
    encoded[far] = np.array([[9, 0], [-9, 0], [0, 9], [0, -9]])
    has_learnt(study, 1, encoded=encoded)
    study = opening(plan)
    assert {image for pair in study.current.pairs for image in pair.pair} == {IDS[row] for row in far}
    judge_round(study)
    has_learnt(study, 2)
    assert len(study.current.pairs) == 4, "without features, any pair is better than none"


def test_fast_judges_and_a_slow_ranker(opening: Opening) -> None:
    study = opening()
    judge_round(study)
    judge_round(study)
    assert (study.current.number, study.round_to_train()) == (3, 2)
    has_learnt(study, 1)
    assert (study.current.number, study.current.provisional, study.round_to_train()) == (3, True, 2)
    has_learnt(study, 2)
    assert not study.current.provisional


def test_undo_brings_the_pair_back(opening: Opening) -> None:
    study = opening()
    asked = study.next_pairs("Ada", 1)[0]
    said = judge(study, asked)
    assert study.next_pairs("Ada", 1)[0] != asked
    study.judge(Undo(name="take-back-1", at=utc_now(), who="Ada", undoes=said.name))
    assert study.next_pairs("Ada", 1)[0] == asked
    assert study.judgements == study.latest_judgements("Ada", 5) == []
    assert len(read_journal(study.folder / JOURNAL)) == 2
    judge_round(study)
    last = study.latest_judgements("Ada", 1)[0]
    study.judge(Undo(name="take-back-2", at=utc_now(), who="Ada", undoes=last.name))
    assert study.next_pairs("Ada", 1)[0].pair == last.pair, "before the pairs of the round that began"


def test_several_annotators_share_the_pairs_and_agree_on_some(opening: Opening) -> None:
    study = opening()
    everybody = {one for one in study.current.pairs if one.everybody}
    first = study.next_pairs("Ada", 3)
    assert not (set(first) - everybody) & (set(study.next_pairs("Bob", 3)) - everybody)
    for asked in study.next_pairs("Ada", 6):
        judge(study, asked)
    assert study.current.number == 2
    assert set(study.next_pairs("Bob", 2)) == everybody
    for asked in everybody:
        judge(study, asked, "second", "Bob")
    assert everybody.isdisjoint(study.next_pairs("Bob", 9))


def test_what_one_person_skips_another_is_asked(opening: Opening) -> None:
    study = opening()
    skipped = next(one for one in study.next_pairs("Ada", 6) if not one.everybody)
    judge(study, skipped, "skip")
    assert skipped not in study.next_pairs("Ada", 9)
    assert skipped in study.next_pairs("Bob", 20)


def test_only_skips_are_nothing_to_learn_from(opening: Opening) -> None:
    study = opening()
    for asked in study.next_pairs("Ada", 6):
        judge(study, asked, "skip")
    assert (study.current.number, study.round_to_train()) == (2, None)


def test_all_pairs_asked(opening: Opening) -> None:
    study = opening(study_plan.StudyPlan(rounds=50, start=1, step=1, overlap=0), IDS[:4])
    while found := study.next_pairs("Ada", 1):
        judge(study, found[0])
    assert study.finished
    assert len(study.judgements) == math.comb(4, 2)


def test_images_come_and_go(opening: Opening) -> None:
    study = opening()
    gone = study.current.pairs[0].first
    left = [image for image in IDS if image != gone]
    study = opening(ids=left)
    assert all(gone not in one[:2] for one in study.next_pairs("Ada", 9))
    judge_round(study)
    has_learnt(study, 1, left)
    study = opening(ids=[*left, "f" * 32])  # the ranker has not seen this one
    judge_round(study)
    assert study.current.number == 3
    with pytest.raises(InvalidInput, match="none of the images"):
        opening(ids=["f" * 32, "e" * 32])


def test_one_server_at_a_time(opening: Opening) -> None:
    study = opening()
    with pytest.raises(CollectionBusy):
        Study(study.folder, IDS, PLAN)


@pytest.mark.parametrize("ids", [[], IDS[:1]])
def test_too_few_images(opening: Opening, ids: list[str]) -> None:
    with pytest.raises(InvalidInput, match="two images"):
        opening(ids=ids)


def test_severities_that_are_no_numbers_are_not_kept(opening: Opening) -> None:
    study = opening()
    judge_round(study)
    values = np.full(len(IDS), np.nan, np.float32)
    severity = SeverityEstimate(values, values, np.eye(len(IDS), dtype=np.float32))
    with pytest.raises(InvalidInput, match="finite"):
        study_files.store_trained_model(study.folder, None, 1, 9, IDS, severity)  # type: ignore[arg-type]
    assert study_files.latest_model(study.folder) is None


@pytest.mark.parametrize("name", ["rounds/0001.json", "models/0001-00000006/severity.npz"])
def test_damage_is_told(opening: Opening, name: str) -> None:
    study = opening()
    judge_round(study)
    has_learnt(study, 1)
    (study.folder / name).write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(InvalidInput, match=name.split("/")[0]):
        opening()


def test_grades_of_people(opening: Opening) -> None:
    study = opening(PLAN.model_copy(update={"grades": (0.0, 1.0, 2.0), "rounds": 1}))
    assert training_grades(study.grades, IDS) is None
    first = judge(study, study.next_pairs("Ada", 1)[0])
    given = [give_grade(study, IDS[3], 2), give_grade(study, IDS[3], 1, "Bob"), give_grade(study, IDS[4], 0)]
    for grade in (3.0, -1.0):
        with pytest.raises(InvalidInput, match="it has 0, 1, 2"):
            give_grade(study, IDS[5], grade)
    assert study.latest_answers("Ada", 9) == [first, given[0], given[2]]
    assert study.latest_answers("Ada", 1) == [given[2]]
    grades = training_grades(study.grades, IDS)
    assert grades is not None
    assert {row: grade for row, grade in enumerate(grades) if not np.isnan(grade)} == {3: 1.5, 4: 0.0}
    assert training_grades(study.grades, IDS[5:]) is None
    judge_round(study)
    has_learnt(study, 1)
    study.judge(Undo(name="take-back-1", at=utc_now(), who="Ada", undoes=given[0].name))
    assert [(one.image, one.grade) for one in study.grades] == [(IDS[3], 1.0), (IDS[4], 0.0)]
    assert study.round_to_train() == 1, "also grades after the last round are learnt"
    with pytest.raises(InvalidInput, match="start with --grades"):
        give_grade(opening(), IDS[3], 1)


def test_examples_for_the_ranker(opening: Opening) -> None:
    study = opening()
    queue = study.next_pairs("Ada", 4)
    for asked, answer in zip(queue, ["first", "second", "alike", "skip"], strict=True):
        judge(study, asked, answer)
    pairs, labels = training_pairs(study.judgements, IDS)
    assert labels.tolist() == [1, 0, 0.5]
    assert [(IDS[first], IDS[second]) for first, second in pairs] == [one[:2] for one in queue[:3]]
    pairs, labels = training_pairs(study.judgements, [queue[0].first])
    assert (pairs.shape, labels.shape) == ((0, 2), (0,))


def test_the_process_ends_with_its_server(tmp_path: Path, indexed: Path, opening: Opening) -> None:
    study = opening()
    study_plan.save_plan(study.folder, {})
    command = [
        sys.executable,
        "-m",
        "service.features.annotate.study_training",
        str(indexed),
        str(study.folder),
        "1",
    ]
    nobody_else = str(os.getpid() + 1)
    assert subprocess.run([*command, nobody_else], timeout=400).returncode == STOPPED
    told = subprocess.run(
        [*command[:-2], str(tmp_path / "none"), "1", "0"], capture_output=True, text=True, timeout=400
    )
    assert told.returncode == FAILED
    assert told.stderr.startswith("cbir: there is no study")


@pytest.mark.parametrize("cut", [None, b"", b'{"kind": '])
def test_lost_judgements_are_no_new_study(opening: Opening, cut: bytes | None) -> None:
    study = opening()
    judge(study, study.next_pairs("Ada", 1)[0])
    study.close()
    path = study.folder / JOURNAL
    path.unlink()
    if cut is not None:
        path.write_bytes(cut)
    with pytest.raises(InvalidInput, match=r"judgements\.jsonl are missing or empty.*restore the file"):
        opening()
    with pytest.raises(InvalidInput, match="missing or empty"):
        journal_path(study.folder)
    assert (path.read_bytes() if path.exists() else None) == cut


def test_training_names_lost_judgements(indexed: Path, opening: Opening) -> None:
    study = opening()
    study_plan.save_plan(study.folder, {})
    judge(study, study.next_pairs("Ada", 1)[0])
    study.close()
    (study.folder / JOURNAL).unlink()
    command = [
        sys.executable,
        "-m",
        "service.features.annotate.study_training",
        str(indexed),
        str(study.folder),
        "1",
    ]
    told = subprocess.run([*command, str(os.getpid())], capture_output=True, text=True, timeout=400)
    assert told.returncode == FAILED
    assert "judgements.jsonl are missing or empty" in told.stderr


def test_lost_rounds_are_not_begun_again(opening: Opening) -> None:
    study = opening()
    judge(study, study.next_pairs("Ada", 1)[0])
    study.close()
    shutil.rmtree(study.folder / "rounds")
    with pytest.raises(InvalidInput, match=r"rounds in .* are missing, though there are judgements"):
        opening()
    assert not (study.folder / "rounds").exists()


def test_a_lost_plan_is_not_the_default_one(opening: Opening) -> None:
    study = opening()
    judge(study, study.next_pairs("Ada", 1)[0])
    with pytest.raises(InvalidInput, match="the plan of the study, is missing"):
        study_plan.save_plan(study.folder, {})
    assert not (study.folder / study_plan.FILE).exists()
