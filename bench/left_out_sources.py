"""Measure `auto`, its diffusion alone and EPRF on parts of a collection that nothing was tuned on.

Each set is a collection of its own (`source_sets.py`): its directions are learned from its images alone. Images of
the query's patient are left out, unless patients are the classes. Differences have paired bootstrap intervals over
queries. With --choose, settings of `auto` are chosen on the sets of all sources but one and checked on that
one, in turn: those whose worst gain is best.

    OMP_NUM_THREADS=1 python bench/left_out_sources.py COLLECTION --finer COLLECTION [--choose] [--out FILE]
    OMP_NUM_THREADS=1 python bench/left_out_sources.py COLLECTION --finer COLLECTION --time

Both have the same images, with the labels `label`, `source` and where known `grade`; that of --finer, of `huang2012`,
tells like pictures.
"""

import argparse
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from source_sets import Images, LabelledSet, gallery_of, labelled_sets, read

from cbir import rerank
from cbir.evaluation.agreement_count import LabelledRows, draw_queries
from cbir.evaluation.rank_metrics import average_precision
from cbir.gallery.gallery import Gallery, rank, top_k
from cbir.gallery.vector_blocks import Rows
from cbir.rerank.diffusion import Diffusion
from cbir.rerank.query_list import QueryList
from cbir.rerank.reranker import Reranked, Reranker
from cbir.store import Collection
from cbir.store.base.profile import Profile, settings_of_new
from cbir.system.threads import OneBlasThread

SHOWN = ("none", "diffusion", "auto", "eprf", "eprf:preset=paper")
CHOICES: Mapping[str, Mapping[str, float]] = {
    "P=3": {"P": 3},
    "P=8": {"P": 8},
    "P=15": {"P": 15},
    "weight=1": {"weight": 1},
    "evidence=2": {"evidence": 2},
    "without the update": {"lam": 0},
    "without SVMs": {"weight": 0},
    "without evidence": {"evidence": 0},
}
FLOW = ("damping", "tail", "mutual", "sure")  # parameters that `auto` has of its diffusion
RESAMPLES = 2000
TIMED, ANSWERS = 40, 20  # queries, and images that each finds
HEAD = """\
# Sources and class sizes that nothing was tuned on

    OMP_NUM_THREADS=1 python bench/left_out_sources.py COLLECTION --finer COLLECTION {options} --out FILE

Commit {commit}. Each set is a collection of its own, with directions learned from its images alone; of fewer than
1,000 images vectors are centred only. Queries are drawn evenly from its classes; images of the query's patient are
left out, but where patients are the classes. `auto` is what it stands for without labels, `{auto}`, and `diffusion`
its diffusion alone, `{flow}`.
In brackets: 95 % intervals by the bootstrap, over the queries of a set.
"""
Quality = NDArray[np.float64]  # AP and P@1, or their means: (..., 2)


class Measured(NamedTuple):
    """A set with the quality (q, methods, 2) of its queries."""

    name: str
    source: str
    images: int
    scored: Quality

    def gains(self, method: int, base: int) -> Quality:
        """Return the differences (q, 2) between two methods, in points."""
        return 100 * np.asarray(self.scored[:, method] - self.scored[:, base])


def methods(profile: Profile, with_choices: bool) -> dict[str, Reranker]:
    """Return the methods by their names in the tables: those SHOWN, and if asked for other settings of `auto`."""
    choice = rerank.default_choice(profile.descriptor)
    auto = rerank.get(choice.method, **choice.parameters)
    named = {
        "none": rerank.get("none"),
        "diffusion": rerank.get("diffusion", **{name: auto.parameters[name] for name in FLOW}),
        "auto": auto,
        "eprf": rerank.get_tuned("eprf", settings_of_new(profile), {}),
        "eprf:preset=paper": rerank.get("eprf", preset="paper"),
    }
    for name, values in CHOICES.items() if with_choices else ():
        named[name] = rerank.get(choice.method, **{**choice.parameters, **values})
    return named


def share_flows() -> None:
    """Let the methods compute the diffusion of a query once."""
    plain: Callable[[Diffusion, QueryList], tuple[Rows, Reranked]] = Diffusion.diffuse
    flows = WeakKeyDictionary[QueryList, dict[tuple[float, ...], tuple[Rows, Reranked]]]()

    def remembered(self: Diffusion, query_list: QueryList) -> tuple[Rows, Reranked]:
        of_query = flows.setdefault(query_list, {})
        setting = tuple(getattr(self, name) for name in Diffusion.parameter_names() if name != "sure")
        if setting not in of_query:
            of_query[setting] = plain(self, query_list)
        return of_query[setting]

    Diffusion.diffuse = remembered  # type: ignore[method-assign]


def measure(
    images: Images, profile: Profile, part: LabelledSet, queries: int, rerankers: Sequence[Reranker]
) -> Measured:
    """Return the quality of methods in a set; they share the list and the distances of a query."""
    classes = np.unique(part.classes, return_inverse=True)[1]
    patients = np.full(len(classes), -1)
    if not part.same_patient:
        names, codes = np.unique(images.patient[part.rows], return_inverse=True)
        patients = np.where(names[codes] == "", -1, codes)
    labelled = LabelledRows(np.arange(len(classes)), classes, patients)
    usable = [bool((classes[labelled.others(row)] == classes[row]).any()) for row in range(len(classes))]
    gallery = gallery_of(images.raw[part.rows], profile)
    drawn = draw_queries(labelled, np.array(usable), queries)
    scored = [
        quality_of(gallery, index, labelled.others(index), classes, rerankers) for index in drawn.tolist()
    ]
    return Measured(part.name, part.source, len(classes), np.array(scored))


def quality_of(
    gallery: Gallery,
    index: int,
    others: NDArray[np.bool_],
    classes: NDArray[np.int64],
    rerankers: Sequence[Reranker],
) -> Quality:
    """Return AP and P@1 (methods, 2) of a query with the image at row `index` among `others` (n,)."""
    query = gallery.vectors(np.array([index]))[0]
    query_list = QueryList(query, rank(query, gallery, np.flatnonzero(others)), gallery)
    quality = []
    for reranker in rerankers:
        rows, reranked = reranker.rerank(query_list)
        relevant = classes[rows[top_k(reranked.scores, len(rows))]] == classes[index]
        quality.append([average_precision(relevant[None])[0], relevant[0]])
    return np.array(quality)


def interval(gains: Sequence[Quality]) -> tuple[Quality, Quality, Quality]:
    """Return mean and 95 % interval, each (2,), of the mean over sets of the gains (q, 2) of their queries."""
    random = np.random.default_rng(0)
    means = [each[random.integers(0, len(each), (RESAMPLES, len(each)))].mean(axis=1) for each in gains]
    low, high = np.quantile(np.mean(means, axis=0), [0.025, 0.975], axis=0)
    return np.mean([each.mean(axis=0) for each in gains], axis=0), low, high


def interval_cells(gains: Sequence[Quality]) -> str:
    """Return cells of mAP and P@1 with their intervals."""
    mean, low, high = interval(gains)
    return " | ".join(f"{mean[i]:+.2f} ({low[i]:+.2f} to {high[i]:+.2f})" for i in range(2))


def report(sets: Sequence[Measured], names: list[str]) -> Iterator[str]:
    """Yield the lines of the tables."""
    shown = [names.index(name) for name in SHOWN]
    yield f"| mAP / P@1 | images | queries | {' | '.join(f'`{name}`' for name in SHOWN)} |"
    yield f"| --- | ---: | ---: |{' --- |' * len(SHOWN)}"
    for each in sets:
        means = 100 * each.scored.mean(axis=0)
        cells = [f"{means[i, 0]:.1f} / {means[i, 1]:.1f}" for i in shown]
        yield f"| {each.name} | {each.images:,} | {len(each.scored)} | {' | '.join(cells)} |"
    for method, base in (("auto", "diffusion"), ("eprf", "none")):
        pair = names.index(method), names.index(base)
        yield f"\n| `{method}` over `{base}` | mAP (95 %) | P@1 (95 %) |\n| --- | --- | --- |"
        for each in sets:
            yield f"| {each.name} | {interval_cells([each.gains(*pair)])} |"
        yield f"| **mean of sets** | {interval_cells([each.gains(*pair) for each in sets])} |"
    for base in ("diffusion", "none"):
        yield f"\n| over `{base}` | mAP, mean | worst | P@1, mean | worst |\n|{' --- |' * 5}"
        for number, name in enumerate(names):
            yield worst_line(name, sets, number, names.index(base))
    if len(names) == len(SHOWN):
        return
    choices = [number for number, name in enumerate(names) if name not in SHOWN or name == "auto"]
    yield (
        "\n| left out | chosen on the others | mAP over `diffusion` there: mean | worst |\n|" + " --- |" * 4
    )
    for source in sorted({each.source for each in sets} - {"all"}):
        yield left_out_line(source, sets, names, choices)


def worst_line(name: str, sets: Sequence[Measured], method: int, base: int) -> str:
    """Return a row of mean and worst gains of a method over another, in points."""
    gains = np.array([each.gains(method, base).mean(axis=0) for each in sets])
    worst = gains.argmin(axis=0)
    cells = [
        f"{gains[:, i].mean():+.2f} | {gains[worst[i], i]:+.2f} ({sets[worst[i]].name})" for i in range(2)
    ]
    return f"| {name} | {' | '.join(cells)} |"


def left_out_line(source: str, sets: Sequence[Measured], names: list[str], choices: list[int]) -> str:
    """Return a row: the setting with the best worst gain on other sources, and its gains on `source`."""
    base = names.index("diffusion")
    gains = np.array([[each.gains(i, base)[:, 0].mean() for i in choices] for each in sets])
    inside = np.array([each.source == source for each in sets])
    best = int(np.argmax(gains[~inside].min(axis=0)))
    own = gains[inside, best]
    where = np.flatnonzero(inside)[own.argmin()]
    return (
        f"| {source} | {names[choices[best]]} | {own.mean():+.2f} | {own.min():+.2f} ({sets[where].name}) |"
    )


def time_lines(gallery: Gallery, rerankers: Mapping[str, Reranker]) -> Iterator[str]:
    """Yield rows of the median milliseconds of a query, with the list that each method ranks, in a collection."""
    rows = np.random.default_rng(0).permutation(len(gallery))[:TIMED]
    spent = np.empty((TIMED, len(SHOWN)))
    for place, row in enumerate([rows[0], *rows.tolist()]):  # the first one warms up
        query = gallery.vectors(np.array([row]))[0]
        for number, name in enumerate(SHOWN):
            started = time.perf_counter()
            rerankers[name].rerank(QueryList(query, rank(query, gallery), gallery, ANSWERS))
            spent[max(place - 1, 0), number] = 1000 * (time.perf_counter() - started)
    median = np.median(spent, axis=0)
    yield f"\n| milliseconds in {len(gallery):,} images | {' | '.join(SHOWN)} |\n|{' --- |' * (len(SHOWN) + 1)}"
    yield f"| median of {TIMED} queries | {' | '.join(f'{value:.1f}' for value in median)} |"
    ratio = np.median(spent / spent[:, [SHOWN.index("diffusion")]], axis=0)
    yield f"| of `diffusion` | {' | '.join(f'{value:.2f}' for value in ratio)} |"


def commit() -> str:
    """Return the commit of the code, and whether it has changes."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=9", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("collection", type=Path)
    options.add_argument("--finer", type=Path, required=True, help="the same images with huang2012")
    options.add_argument(
        "--queries", type=int, default=200, help="of each set, drawn evenly from its classes"
    )
    options.add_argument("--seed", type=int, default=0, help="of the images that are drawn")
    options.add_argument("--out", type=Path, help="Markdown file of the tables")
    options.add_argument(
        "--choose", action="store_true", help="settings of auto too, chosen on other sources"
    )
    options.add_argument("--time", action="store_true", help="measure times alone")
    values = options.parse_args()
    made_by = commit()
    with OneBlasThread():
        if values.time:
            with Collection(values.collection) as collection:
                print(*time_lines(collection.view().gallery, methods(collection.profile, False)), sep="\n")
            print(f"\nLoad {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores, {made_by}.")
            return
        share_flows()
        images, profile = read(values.collection, values.finer)
        named = methods(profile, values.choose)
        flow = " ".join(f"{name}={named['diffusion'].parameters[name]:g}" for name in FLOW)
        head = HEAD.format(
            options=f"--queries {values.queries}{' --choose' if values.choose else ''}",
            commit=made_by,
            auto=named["auto"].name,
            flow=flow,
        )
        sets: list[Measured] = []
        for part in labelled_sets(images, values.seed):
            sets.append(measure(images, profile, part, values.queries, list(named.values())))
            print(part.name, time.strftime("%X"), flush=True)
            lines = [head, *report(sets, list(named)), ""]
            if values.out:
                values.out.write_text("\n".join(lines))
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
