"""Replay of a usage log: measures on few judgements, position bias, and the whole command."""

import csv
import json
import math
import time

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import InvalidInput
from cbir.evaluation.position_bias import PositionBias, estimate_position_bias, group_shows
from cbir.evaluation.runs import parse_methods
from cbir.settings import Settings
from service.features.usage.replay import (
    NAMES,
    ReplayPlan,
    judged_measures,
    position_bias,
    replay_log,
    weighted_clicks,
)
from service.features.usage.replay_log import (
    Click,
    LoggedQuery,
    LoggedSearch,
    collect_queries,
    write_usage_csv,
)
from service.features.usage.replay_report import usage_by_method

PROFILE = "hash"
IMAGES = frozenset("abcdefghij") | {"q"}


def search(number, shown="abcde", opened="", relevant="", irrelevant="", **more):
    events = {("compare", image): 1 for image in opened}
    events |= {("relevant", image): 1 for image in relevant} | {
        ("relevant", image): -1 for image in irrelevant
    }
    values = {"kind": "image", "query_image": "q", "profile": PROFILE, "method": "none"} | more
    return LoggedSearch(
        f"s{number}", 1000 + number, "col", k=5, answers=tuple(shown), events=events, **values
    )  # fmt: skip


def query(plain=1, clicks=(), relevant="", irrelevant=""):
    shows = tuple(search(number) for number in range(plain))
    return LoggedQuery("q", "q", None, frozenset(relevant), frozenset(irrelevant), shows, tuple(clicks))


# Measures on judged images


@given(
    st.permutations("abcdefghij"), st.integers(1, 10),
    st.lists(st.sampled_from([-1, 0, 1]), min_size=10, max_size=10),
)  # fmt: skip
def test_measures_equal_those_of_trec_eval(order, depth, judgements):
    judged = dict(zip("abcdefghij", judgements, strict=True))
    relevant = {image for image, value in judged.items() if value > 0}
    irrelevant = {image for image, value in judged.items() if value < 0}
    answers = order[:depth]
    values = judged_measures(answers, relevant, irrelevant, depth)
    if not relevant or not irrelevant:
        assert all(math.isnan(values[name]) for name in NAMES[:4])
        return
    qrels = {"q": {image: max(value, 0) for image, value in judged.items() if value}}
    run = {"q": {image: float(10 - rank) for rank, image in enumerate(answers)}}
    only_judged = {"q": {image: score for image, score in run["q"].items() if judged[image]}}
    names = {
        "condensed AP": ir_measures.AP,
        "condensed nDCG": ir_measures.nDCG,
        "condensed RR": ir_measures.RR,
    }
    expected = {"bpref": ir_measures.calc_aggregate([ir_measures.Bpref], qrels, run)[ir_measures.Bpref]}
    for name, measure in names.items():
        some = (
            ir_measures.calc_aggregate([measure], qrels, only_judged) if only_judged["q"] else {measure: 0.0}
        )
        expected[name] = some[measure]
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, abs=1e-9), name


def test_bpref_by_hand():
    # R = 2, N = 1: "b" follows the irrelevant "x", so it counts 1 - 1/1; "a" counts 1.
    assert judged_measures("auxb", {"a", "b"}, {"x"}, 4)["bpref"] == pytest.approx(0.5)


def test_mean_rank_counts_all_images_and_bounds_the_missing():
    values = judged_measures("xay", {"a", "missing"}, set(), 3)
    assert values["mean rank"] == (2 + 4) / 2
    assert math.isnan(values["bpref"])


# Position bias


def draw_shows(eta, count=400, seed=0):
    generator = np.random.default_rng(seed)
    for image in range(count):
        appeal = generator.uniform(0, 0.8)
        for rank in generator.integers(1, 20, 6).tolist():
            yield "q", f"{image}", rank, bool(generator.random() < appeal * rank**-eta)


@pytest.mark.parametrize("eta", [0.0, 0.7, 1.5])
def test_eta_is_recovered_whatever_the_relevance(eta):
    biases = [estimate_position_bias(group_shows(draw_shows(eta, seed=seed))) for seed in range(5)]
    assert {bias.origin for bias in biases} == {"estimated"}
    assert np.mean([bias.eta for bias in biases]) == pytest.approx(eta, abs=0.15)
    assert sum(bias.low < eta < bias.high for bias in biases) >= 4


def test_eta_and_its_interval_are_those_of_a_conditional_poisson_model():
    from statsmodels.discrete.conditional_models import ConditionalPoisson

    shows = list(draw_shows(0.8, count=60))
    bias = estimate_position_bias(group_shows(shows))
    clicks = np.array([clicked for *_, clicked in shows], float)
    logs = np.log([[rank] for _, _, rank, _ in shows])
    groups = np.array([int(image) for _, image, _, _ in shows])
    with pytest.warns(UserWarning, match="Dropped"):  # images without a click tell nothing
        model = ConditionalPoisson(clicks, logs, groups=groups)
    fitted = model.fit()
    assert bias.eta == pytest.approx(-fitted.params[0], abs=1e-4)
    assert [-bias.high, -bias.low] == pytest.approx(fitted.conf_int()[0].tolist(), abs=1e-3)


def test_a_log_with_one_rank_for_each_image_tells_nothing():
    shows = [("q", f"{image}", image % 10 + 1, True) for image in range(500)] * 2
    bias = estimate_position_bias(group_shows(shows))
    assert (bias.origin, bias.eta, bias.clicks) == ("assumed", 1.0, 0)


@pytest.mark.parametrize(("ranks", "clicked"), [((1, 2), 1), ((1, 100), 1), ((1, 100), 100)])
def test_clicks_at_one_of_the_ranks_alone_do_not_determine_eta(ranks, clicked):
    bias = estimate_position_bias([[(rank, rank == clicked) for rank in ranks]] * 40)
    assert (bias.origin, bias.eta, bias.low, bias.clicks) == ("assumed", 1.0, None, 40)


def test_propensities_fall_from_one_and_never_exceed_it():
    assert PositionBias(2, None, None, 0, "stated").propensities([1, 2, 4]).tolist() == [1, 0.25, 0.0625]
    assert PositionBias(-1, None, None, 0, "estimated").propensities([1, 2]).tolist() == [1, 1]


# Clicks


def test_weighted_clicks_by_hand():
    plan = ReplayPlan(None, [], depth=3, clip=2.5)
    asked = query(plain=2, clicks=[Click("a", 1), Click("b", 2), Click("c", 4)])
    bias = PositionBias(1, None, None, 0, "stated")
    dcg, rank = weighted_clicks(asked, ["x", "b", "a"], bias, plan)
    # weights 1, 2 and 4, of which the last is clipped; c is beyond the answers.
    assert dcg == pytest.approx((1 / math.log2(4) + 2 / math.log2(3)) / 2)
    assert rank == pytest.approx((3 + 2 * 2 + 2.5 * 4) / 5.5)


def test_weights_undo_the_position_bias():
    """Clicks by a model of position bias: the weighted DCG is that of the relevant images, the plain one is not."""
    generator = np.random.default_rng(1)
    images = [f"i{number}" for number in range(10)]
    relevance = dict(zip(images, np.linspace(0.1, 0.9, 10), strict=True))
    bias, plan = PositionBias(1, None, None, 0, "stated"), ReplayPlan(None, [], depth=10, clip=100)
    clicks = [
        Click(image, rank)
        for _ in range(4000)
        for rank, image in enumerate(images, start=1)
        if generator.random() < relevance[image] / rank
    ]
    asked = query(plain=4000, clicks=clicks)
    best = sorted(images, key=relevance.get, reverse=True)
    truth = sum(relevance[image] / math.log2(1 + rank) for rank, image in enumerate(best, start=1))
    estimated, _ = weighted_clicks(asked, best, bias, plan)
    naive, _ = weighted_clicks(asked, best, PositionBias(0, None, None, 0, "stated"), plan)
    assert estimated == pytest.approx(truth, rel=0.03)
    assert naive < truth / 2


# Queries of a log


def test_judgements_of_all_searches_of_a_query_are_merged():
    searches = [
        search(1, relevant="ab", irrelevant="c", opened="d"),
        search(2, relevant="a", irrelevant="bd", shown="dcba", filters=1, opened="d"),
        search(3, relevant="c", irrelevant="c", shown="edcba", opened="ez"),
    ]  # fmt: skip
    queries, left_out = collect_queries(searches, PROFILE, IMAGES)
    (merged,) = queries
    assert left_out == {}
    assert merged.relevant == {"a"}  # b and c are judged both ways as often
    assert merged.irrelevant == {"d", "c"}
    assert [(click.image, click.rank) for click in merged.clicks] == [("d", 4), ("e", 1)]
    assert len(merged.plain) == 2  # the filtered one is not


def test_what_cannot_be_replayed_is_left_out_with_its_reason():
    vector = np.array([1, 2], np.float32)
    searches = [
        search(1, kind="other", query_image=None, opened="a"),
        search(2, kind="upload", query_image=None, opened="a"),
        search(3, kind="upload", query_image=None, vector=vector, profile="another", opened="a"),
        search(4, query_image="gone", opened="a"),
        search(5, query_image="a"),
        search(6, kind="region", query_image=None, vector=vector, opened="a"),
        search(7, kind="upload", query_image=None, vector=vector, relevant="b"),
    ]  # fmt: skip
    queries, left_out = collect_queries(searches, PROFILE, IMAGES)
    assert left_out == dict.fromkeys(
        ["no single image", "no vector", "other profile", "erased", "no events"], 1
    )
    (merged,) = queries
    assert merged.vector.tolist() == [1, 2]
    assert (len(merged.plain), merged.relevant) == (2, {"b"})


def test_events_of_images_that_are_gone_do_not_count():
    queries, left_out = collect_queries([search(1, shown="za", opened="z", relevant="z")], PROFILE, IMAGES)
    assert (queries, left_out) == ([], {"no events": 1})


def test_erased_answers_keep_the_ranks_of_the_others():
    (merged,) = collect_queries([search(1, shown=["-", "b"], opened="b")], PROFILE, IMAGES)[0]
    assert merged.clicks[0].rank == 2


def test_the_bias_is_estimated_from_the_searches_of_all_methods():
    searches = []
    for number in range(60):
        order = "abcde" if number % 2 else "edcba"
        searches.append(search(number, shown=order, opened=order[0 if number % 10 else -1]))
    queries, _ = collect_queries(searches, PROFILE, IMAGES)
    bias = position_bias(queries, None)
    assert bias.origin == "estimated"
    assert bias.eta > 1
    assert position_bias(queries, 0.3).eta == 0.3


def test_usage_by_method_has_wilson_intervals():
    useful = [search(n, method="eprf") for n in range(3)]
    for number, value in enumerate((1, 1, -1)):
        useful[number].events["useful", ""] = value
    rows = usage_by_method([*useful, search(9, opened="a")])
    assert [row["method"] for row in rows] == ["eprf", "none"]
    z, p, n = 1.959964, 2 / 3, 3
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert (rows[0]["low"], rows[0]["high"]) == pytest.approx((centre - half, centre + half), abs=1e-6)
    assert (rows[1]["opened"], rows[1]["useful_share"]) == (1, None)


# The whole


def log_of(collection):
    """A log of four queries: images of the same label are relevant."""
    records = [record for _, record in collection.iterate()]
    vector = collection.vector(records[1].image_id)
    searches = []
    for number, asked in enumerate(records[:4]):
        shown = [record for record in records if record is not asked][number : number + 8]
        marks = {
            ("relevant", record.image_id): 1 if record.labels["label"] == asked.labels["label"] else -1
            for record in shown[:5]
        }
        events = marks | {("compare", shown[0].image_id): 1, ("useful", ""): 1}
        searches.append(
            LoggedSearch(
                f"s{number}", int(time.time()), collection.folder.name, collection.profile.hash, "none", 8,
                "image", tuple(record.image_id for record in shown), {}, asked.image_id, events=events,
            )
        )  # fmt: skip
    events = {("compare", records[3].image_id): 1}
    searches.append(
        LoggedSearch(
            "v", int(time.time()), collection.folder.name, collection.profile.hash, "none", 8, "upload",
            tuple(record.image_id for record in records[2:6]), {}, None, vector, events=events,
        )
    )  # fmt: skip
    return searches


def run_replay(*arguments):
    done = CliRunner().invoke(app, ["evaluate", "replay", *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def replayed(collection, tmp_path_factory):
    """Figures of two methods on a log."""
    pytest.importorskip("statsmodels")
    folder = tmp_path_factory.mktemp("replay")
    with (folder / "log.csv").open("w", newline="") as file:
        write_usage_csv(log_of(collection), file)
    printed = run_replay(
        "--collection", collection.folder, "--log", folder / "log.csv", "--out", folder / "out",
        "--rerank", "none", "--rerank", "eprf:P=3", "--jobs", "1",
    )  # fmt: skip
    return folder / "out", printed


def test_a_replay_ranks_each_query_with_each_method(replayed, collection):
    out, printed = replayed
    summary = json.loads((out / "summary.json").read_text())
    assert [method["name"] for method in summary["methods"]] == ["none", "eprf:P=3"]
    assert (summary["searches"], summary["queries"]) == (5, 5)
    assert summary["position_bias"]["origin"] == "assumed"
    assert "eprf:P=3" in printed
    with (out / "queries.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    logged = log_of(collection)[0]
    raw = collection.vector(logged.query_image)
    view = collection.view()
    vectors = view.gallery.vectors(np.arange(len(view.gallery)))
    distances = np.linalg.norm(vectors - view.statistics.normalise(raw), axis=1)
    own = collection.numbers_of([logged.query_image])[0]
    order = [int(view.gallery.ids[row]) for row in np.argsort(distances) if view.gallery.ids[row] != own]
    names = collection.image_ids()
    ranks = [order.index(number) + 1 for number, image in names.items() if logged.marks.get(image) == 1]
    value = next(
        float(row["value"]) for row in rows
        if (row["method"], row["query"], row["measure"]) == ("none", logged.query_image, "mean rank")
    )  # fmt: skip
    assert value == pytest.approx(np.mean(ranks), rel=1e-4)


def test_the_report_names_methods_and_its_limits(replayed):
    report = (replayed[0] / "report.html").read_text()
    assert "eprf:P=3" in report
    assert "never shown cannot count" in report.replace("\n", " ")
    assert "assumed" in report


def test_a_vector_of_another_length_is_refused(collection):
    plan = ReplayPlan(collection.folder, parse_methods("none"))
    logged = search(
        1, kind="upload", query_image=None, vector=np.ones(7, np.float32), profile=collection.profile.hash,
        shown=[next(collection.iterate())[1].image_id],
    )  # fmt: skip
    logged.events["compare", logged.answers[0]] = 1
    with pytest.raises(InvalidInput, match=r"vector-.* not 7"):
        replay_log(plan, [logged], Settings(), lambda *_: None)


def test_a_log_without_events_is_refused(collection):
    plan = ReplayPlan(collection.folder, parse_methods("none"))
    with pytest.raises(InvalidInput, match="1 with erased"):
        replay_log(plan, [search(1, query_image="gone")], Settings(), lambda *_: None)


def test_the_name_of_another_collection_is_suggested(collection, tmp_path):
    pytest.importorskip("statsmodels")
    with (tmp_path / "log.csv").open("w", newline="") as file:
        write_usage_csv([search(1)], file)
    options = ["--collection", collection.folder, "--log", tmp_path / "log.csv", "--out", tmp_path / "out"]
    with pytest.raises(InvalidInput, match="--name takes col"):
        run_replay(*options, "--rerank", "none")
    assert not (tmp_path / "out").exists()
