"""The choice of `auto` on a collection's labelled images, against searches that are scored by scikit-learn."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import sem
from sklearn.metrics import average_precision_score

from cbir import rerank, settings
from cbir.evaluation import auto_choice
from cbir.evaluation.agreement_count import LabelledRows, draw_queries
from cbir.evaluation.auto_choice import LEAST_LABELLED, LEAST_QUERIES, best_candidate, choose, update_choice
from cbir.gallery.gallery import rank
from cbir.rerank import CANDIDATES, default_choice, read_choice
from cbir.search import Request, Searcher
from cbir.search.query_parts import UNSEEN_REASON
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.filter_conditions import parse_filter
from tests.cbir.store.conftest import entry


def filled(
    folder: Path, count: int, key: str = "label", patients: int = 0, backwards: bool = False
) -> Collection:
    """Return a collection of two classes that overlap."""
    made = Collection.create(folder, profiles.get("tamura"))
    entries = []
    for number in range(count):
        patient = f"p{number % patients}" if patients else None
        record, vector = entry(number, labels={key: "ab"[number % 2]}, patient=patient)
        vector[:3] += 1.5 * (number % 2)
        entries.append((record, vector))
    with made.writer() as writer:
        writer.add(entries[::-1] if backwards else entries)
        writer.finish()
    return made


@pytest.fixture
def overlapping(tmp_path: Path) -> Iterator[Collection]:
    with filled(tmp_path / "collection", LEAST_LABELLED, patients=40) as collection:
        yield collection


@pytest.mark.slow
def test_the_choice_is_the_best_of_those_clearly_better_than_the_default(overlapping: Collection) -> None:
    view = overlapping.view()
    numbers = view.gallery.ids.tolist()
    labels, patients = overlapping.labels_by_number("label"), overlapping.patient_keys()
    trials = []
    for name, parameters in CANDIDATES:
        values = []
        for row, number in enumerate(numbers):
            others = np.array([r for r, n in enumerate(numbers) if patients[n] != patients[number]])
            ranking = rank(view.gallery.vectors(np.array([row]))[0], view.gallery, others)
            query = view.gallery.vectors(np.array([row]))[0]
            scores = rerank.get(name, **parameters)(query, ranking, view.gallery).scores
            places = np.argsort(np.argsort(-scores, kind="stable"))
            relevant = np.array([labels[numbers[r]] == labels[number] for r in others])
            values.append((average_precision_score(relevant, -places), relevant[np.argmin(places)]))
        trials.append(np.array(values, float))
    usual = CANDIDATES.index(("none", {}))  # the default of tamura
    clear = []
    for number, candidate in enumerate(trials):
        gain = candidate - trials[usual]
        both = gain[:, 0] + gain[:, 1] / 2
        harmless = gain[:, 0].mean() >= 0 and gain[:, 1].mean() >= 2 * sem(gain[:, 1], ddof=0)
        if number != usual and harmless and both.mean() > sem(both, ddof=0):
            clear.append((both.mean(), -number))
    best = -max(clear)[1] if clear else usual
    means = [trial.mean(axis=0) for trial in trials]
    choice = choose(overlapping)
    assert (choice.method, dict(choice.parameters)) == CANDIDATES[best]
    assert f"100 images by label: mAP {means[best][0]:.3f}, P@1 {means[best][1]:.3f}" in choice.reason
    assert len({tuple(mean.round(6)) for mean in means}) > 2  # the candidates differ on these images


@pytest.mark.slow
def test_searches_follow_the_stored_choice_and_say_why(overlapping: Collection) -> None:
    with overlapping.writer() as writer:
        choice = update_choice(overlapping, writer)
    assert read_choice(overlapping.view().auto, "tamura") == choice
    searcher, raw = (
        Searcher(overlapping, settings.load()),
        overlapping.vector(next(iter(overlapping.image_ids().values()))),
    )
    answer = searcher.rank(raw, "", Request(rerank="auto"))
    assert (answer.method, answer.reason) == (choice.method, choice.reason)
    assert searcher.rank(raw, "", Request(rerank="aqe")).reason == ""
    with LimitedCollection(overlapping, [parse_filter("label=a")]) as limited:  # its reason names no figures
        hidden = searcher.over(limited).rank(raw, "", Request(rerank="auto"))
    assert (hidden.method, hidden.reason) == (choice.method, UNSEEN_REASON)
    with_parameters = searcher.rank(raw, "", Request(rerank="auto", parameters={"steps": 3}))
    assert (with_parameters.method, with_parameters.parameters["steps"]) == ("diffusion-eprf", 3)


@pytest.mark.slow
def test_the_choice_is_the_same_for_images_in_another_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_choice, "MOST_QUERIES", LEAST_QUERIES)  # fewer are drawn than there are
    choices = []
    for backwards in (False, True):
        with filled(tmp_path / f"{backwards}", LEAST_LABELLED, patients=40, backwards=backwards) as made:
            choices.append(choose(made))
    assert choices[0] == choices[1]
    assert choices[0].evidence


def test_few_labels_or_others_choose_the_default(tmp_path: Path) -> None:
    with filled(tmp_path / "few", LEAST_LABELLED - 1) as few, few.writer() as writer:
        assert choose(few).reason == default_choice("tamura").reason
        assert update_choice(few, writer).generation == few.view().snapshot_generation
    with filled(tmp_path / "other", LEAST_LABELLED, key="view") as other:
        assert choose(other, "label").reason == default_choice("tamura").reason
        assert " by view: " in choose(other).reason


@pytest.mark.slow
def test_labels_that_come_later_count_and_a_named_label_stays(tmp_path: Path) -> None:
    with filled(tmp_path / "col", LEAST_LABELLED, key="view") as made, made.writer() as writer:
        writer.set_auto(choose(made, "finding").to_json())
        assert update_choice(made, writer).reason == default_choice("tamura").reason
        for number in range(LEAST_LABELLED):
            writer.relabel(
                f"/images/{number}.png", {"finding": "ab"[number % 2], "label": "cd"[number % 2]}, None
            )
        assert update_choice(made, writer).reason == default_choice("tamura").reason
        assert " by finding: " in update_choice(made, writer, labels_changed=True).reason
        writer.snapshot()
        assert " by finding: " in update_choice(made, writer).reason


def test_a_named_label_is_the_only_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled(tmp_path / "collection", LEAST_LABELLED, key="organ") as collection:

        def refuse(_: Collection) -> list[str]:
            raise AssertionError("all keys were read")

        monkeypatch.setattr(Collection, "label_keys", refuse)
        found = auto_choice.labelled_rows(collection, collection.view(), "organ")
    assert found is not None
    assert found[0] == "organ"


def test_queries_are_drawn_from_each_class_in_turn() -> None:
    label = np.array([2, -1, 0, 2, 1, 0, 2, 0, -1, 0], np.int64)  # one image of class 1, which none can find
    rows = LabelledRows(np.arange(10), label, np.full(10, -1))
    drawn = draw_queries(rows, rows.can_query, 100).tolist()
    assert [label[index] for index in drawn] == [0, 2, 0, 2, 0, 2, 0]
    assert len(set(drawn)) == 7
    assert draw_queries(rows, rows.can_query, 3).tolist() == drawn[:3]


@pytest.mark.slow
def test_queries_of_many_classes_are_drawn_in_time() -> None:
    count = 150_000
    rows = LabelledRows(np.arange(count), np.arange(count) // 3, np.full(count, -1))
    started = time.process_time()
    assert len(draw_queries(rows, rows.can_query, 300)) == 300
    assert time.process_time() - started < 4


def test_a_lucky_candidate_does_not_replace_the_usual_one() -> None:
    generator = np.random.default_rng(3)
    scored = np.repeat(generator.random((200, 1, 2)), 3, axis=1)
    scored[:3, 1, 1] += 1.0  # three first answers better, two worse
    scored[3:5, 1, 1] -= 1.0
    assert best_candidate(scored, 0, 0) == 0
    scored[:, 2, 0] += 0.01  # a little better everywhere
    assert best_candidate(scored, 0, 0) == 2
    scored[:, 1, 1] += 0.5  # first answers of another are much better
    assert best_candidate(scored, 0, 0) == 1
    assert best_candidate(scored[:, :1], 0, 0) == 0


def test_no_change_to_what_is_below_no_re_ranking() -> None:
    """Candidate 1 has the best first answers, and finds fewer than no re-ranking, candidate 2."""
    scored = np.full((200, 3, 2), 0.3)
    scored[:, 1] = (0.35, 0.9)
    scored[:, 2] = (0.4, 0.3)
    assert best_candidate(scored, 0, 2) == 2
    scored[:, 2, 0] = 0.3
    assert best_candidate(scored, 0, 2) == 1


def test_what_may_lose_first_answers_gives_way_to_what_keeps_them() -> None:
    """Candidate 0 finds most, but its first answers are not clearly better than those of 2, no re-ranking.

    As the usual one it stays, unless they are worse.
    """
    scored = np.full((200, 3, 2), 0.3)
    scored[:, 0, 0] = 0.5
    scored[:, 1, 0] = 0.4
    scored[:, 0, 1] += np.tile((0.5, -0.5), 100)
    assert (best_candidate(scored, 0, 2), best_candidate(scored, 1, 2)) == (0, 1)
    scored[:, 0, 1] -= 0.01
    assert best_candidate(scored, 0, 2) == best_candidate(scored, 1, 2) == 1
    scored[:, 0, 1] += 0.11
    assert best_candidate(scored, 0, 2) == best_candidate(scored, 1, 2) == 0


def test_a_lead_within_its_standard_error_is_luck() -> None:
    """100 queries: the lead of 0.01 is within the error of differences of 0.2, and beyond that of 0.05."""
    for spread, best in ((0.2, 0), (0.05, 2)):
        scored = np.full((100, 3, 2), 0.3)
        scored[:, 0, 0] = 0.4
        scored[:, 2, 0] = 0.41 + np.tile((spread, -spread), 50)
        assert best_candidate(scored, 0, 1) == best


def test_other_first_answers_must_be_better_by_two_standard_errors() -> None:
    """Of 100 queries, those whose first answer another candidate alone has right: 3 may be luck, 10 are not."""
    for right, best in ((0, 2), (3, 0), (10, 2)):
        scored = np.zeros((100, 3, 2))
        scored[:, :, 0] = (0.4, 0.3, 0.9)
        scored[:right, 2, 1] = 1.0
        assert best_candidate(scored, 0, 1) == best
