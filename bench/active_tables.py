"""Tables and significance for bench/active.py."""

from collections.abc import Mapping
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import t
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from torch import Tensor, nn

from cbir.learn.severity.sampled_ranker import SampledRanker
from cbir.learn.severity.severity_networks import SampledNetwork, ValueNetwork
from cbir.learn.training.fine_tuning import run_training_loop

IMAGES_PER_PAIR = 2
DECAY = 1e-4  # the paper's; that of a ranker on few values, 300 times as large, leaves rare grades out


def classify(
    ranker: SampledRanker, images: NDArray[Any], grades: NDArray[np.float64], test_images: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Train a classifier with the network and settings of a ranker, except its weight decay, and classify images.

    It sees as many images per batch as the ranker, with dropout in training only, as usual.

    Parameters
    ----------
    ranker : SampledRanker
        Not fitted.
    images : (n, ...)
        Pictures or values, as the ranker takes them.
    grades : (n,) float64
    test_images : (m, ...)

    Returns
    -------
    (m,) float64
        Grades.
    (m,) float64
        Expectations of the grade, to order images by.
    """
    levels, classes = np.unique(grades, return_inverse=True)
    inputs, targets = ranker.prepare(images), torch.from_numpy(classes)
    torch.manual_seed(ranker.seed)
    network = ranker.build_network(inputs)
    network.head = nn.Sequential(network.dropouts[-1], nn.Linear(network.width, len(levels)))
    network = ranker.to_device(network)
    generator = torch.Generator().manual_seed(ranker.seed)
    fixed = ranker.fixed_part(inputs)
    batch = min(IMAGES_PER_PAIR * ranker.batch, len(inputs))
    steps = max(ranker.epochs * -(-len(inputs) // batch), ranker.steps)

    def loss(step: int) -> Tensor:
        rows = torch.randint(len(inputs), (batch,), generator=generator)
        seen = ranker.training_batch(fixed[rows.numpy()], generator)
        with network.with_masks(network.masks(batch, generator)):
            logits = network.head(_trained_layers(network)(seen))
        return nn.functional.cross_entropy(logits, targets[rows].to(logits.device))

    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, ranker.rate, weight_decay=2 * DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, ranker.rate, total_steps=steps + 1)
    network.train()
    run_training_loop(network, optimizer, loss, steps, scheduler=schedule)
    network.eval()
    with torch.inference_mode():
        tests = ranker.batch_tensor(ranker.prepare(test_images))
        logits = torch.cat([network.head(network.layers(part)) for part in tests.split(256)])
    probabilities = logits.softmax(dim=1).double().cpu().numpy()
    return levels[probabilities.argmax(axis=1)], probabilities @ levels


def _trained_layers(network: SampledNetwork) -> nn.Sequential:
    """Return the layers after the projection of values, which is not trained, or all layers."""
    return network.layers[1:] if isinstance(network, ValueNetwork) else network.layers


ALL = "all data"
OURS = "variance"
CONVENTIONAL = "conventional"  # a classifier, Table 3
CLASSIFIED = ("precision", "recall", "f1", "accuracy")
Row = dict[str, Any]


def last(row: Row) -> Row:
    """The last round."""
    return dict(row["rounds"][-1])


def show(found: dict[str, list[Row]]) -> None:
    """Means of the folds."""
    ranked = {method: rows for method, rows in found.items() if method != CONVENTIONAL}
    if ranked:
        accuracies(ranked)
    if last(found[next(iter(found))][0])["classified"]:
        grades(found)
    if not ranked:
        return
    for name, key in (("overall by round", "overall"), ("neighbouring by round", "neighbouring")):
        print(f"\n{name}")
        for method, rows in ranked.items():
            by_round = np.mean([[one[key] for one in row["rounds"]] for row in rows], axis=0)
            print("  ".join([f"{method:14}", *(f"{value:.3f}" for value in by_round)]))
    asked_about(ranked)
    intervals(ranked)


def grades(found: dict[str, list[Row]]) -> None:
    """Tables 2 and 3: scores rounded to the nearest grade, and between thresholds that were fitted."""
    for title, key in (("rounded", "classified"), ("by thresholds", "classified_by_thresholds")):
        print(f"\ngrades, {title}: {', '.join(CLASSIFIED)}, seconds of a person, overall, neighbouring")
        for method, rows in found.items():
            if cells := [last(row)[key] for row in rows if last(row)[key]]:
                means = [np.mean([cell[name] for cell in cells]) for name in CLASSIFIED]
                order = [np.mean([row[name] for row in rows]) for name in ("overall", "neighbouring")]
                seconds = np.mean([last(row)["seconds"] for row in rows])
                shown = (f"{value:.3f}" for value in (*means, *order))
                print("  ".join([f"{method:14}", *shown, f"{seconds:,.0f}"]))
        print(f"\ngrades, {title}, by fold: precision/recall/F1")
        for method, rows in found.items():
            if cells := [last(row)[key] for row in rows if last(row)[key]]:
                each = ["/".join(f"{cell[name]:.3f}" for name in CLASSIFIED[:3]) for cell in cells]
                print("  ".join([f"{method:14}", *each]))


def intervals(found: dict[str, list[Row]]) -> None:
    """Print differences to random and to all data in points, with 95 % intervals of Student's t.

    Pairs are folds of one seed; seeds share the test images, so they are averaged within a fold first.
    """
    for other in ("random", ALL):
        if other not in found or len(found[other]) < 2:
            continue
        print(f"\ndifference to {other}: overall, neighbouring")
        for method, rows in found.items():
            if method != other:
                cells = [difference(rows, found[other], name) for name in ("overall", "neighbouring")]
                print("  ".join([f"{method:14}", *cells]))


def difference(rows: list[Row], others: list[Row], name: str) -> str:
    """Return the mean difference in points with its interval over the folds."""
    differences = np.array([row[name] - other[name] for row, other in zip(rows, others, strict=True)])
    folds = [row["fold"] for row in rows]
    means = 100 * np.array([differences[np.equal(folds, fold)].mean() for fold in np.unique(folds)])
    if len(means) < 2:
        return f"{means[0]:+.1f}"
    half = t.ppf(0.975, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means))
    return f"{means.mean():+.1f} [{means.mean() - half:+.1f}, {means.mean() + half:+.1f}]"


def accuracies(found: dict[str, list[Row]]) -> None:
    """Table 1; p against the paper's method by McNemar's test with Holm's correction, folds together."""
    steps = list(last(found[next(iter(found))][0])["each"])
    p = {near: significance(found, near) for near in (False, True)} if OURS in found else {}
    head = [f"{'method':14}", "pairs", "overall", *steps, "neighbouring", "p overall", "p neighbouring"]
    print("\n" + "  ".join(head))
    for method, rows in found.items():
        values = [np.mean([row["overall"] for row in rows])]
        values += [np.nanmean([last(row)["each"][step] for row in rows]) for step in steps]
        values.append(np.mean([row["neighbouring"] for row in rows]))
        tests = [f"{p[near][method]:.3g}" if method in p.get(near, {}) else "-" for near in (False, True)]
        share = np.mean([last(row)["labelling"] for row in rows])
        print("  ".join([f"{method:14}", f"{share:5.0%}", *(f"{value:.3f}" for value in values), *tests]))


def asked_about(found: dict[str, list[Row]]) -> None:
    """Figures 6 and 7 in numbers."""
    print(
        "\nshare of each grade among the images in pairs, after the last round | median uncertainty of each grade"
    )
    for method, rows in found.items():
        ends = [last(row) for row in rows]
        shares = [np.mean([one["proportions"][grade] for one in ends]) for grade in ends[0]["proportions"]]
        spread = [np.mean([one["uncertainty"][grade][2] for one in ends]) for grade in ends[0]["uncertainty"]]
        images = np.mean([one["images"] for one in ends])
        columns = "  ".join(f"{share:.3f}" for share in shares), "  ".join(f"{of:.3f}" for of in spread)
        print(f"{method:14}  {images:5.0f} images  {columns[0]}  |  {columns[1]}", flush=True)


def drawn_pairs(
    grades: NDArray[np.floating], rng: np.random.Generator, neighbouring: bool = False
) -> NDArray[np.int64]:
    """Draw pairs for a significance test: two grades with equal probability, then an image of each.

    Parameters
    ----------
    grades : (n,) float
    rng : numpy.random.Generator
    neighbouring : bool
        Draw only neighbouring grades.

    Returns
    -------
    (m, 2) int64
        About n pairs, the more severe image first; empty if all grades are equal.
    """
    levels, level_of = np.unique(grades, return_inverse=True)
    rows = [np.flatnonzero(level_of == level) for level in range(len(levels))]
    kinds = list(pairwise(range(len(levels))) if neighbouring else combinations(range(len(levels)), 2))
    if not kinds:
        return np.empty((0, 2), np.int64)
    pairs = {
        (int(rng.choice(rows[high])), int(rng.choice(rows[low])))
        for low, high in (kinds[kind] for kind in rng.integers(0, len(kinds), len(grades)))
    }
    return np.array(sorted(pairs), np.int64)


def right(scores: NDArray[np.floating], pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask (m,) of the `pairs` (m, 2) whose first image, the more severe one, has the higher score."""
    return np.asarray(scores)[pairs[:, 0]] > np.asarray(scores)[pairs[:, 1]]


def mcnemar_holm(ours: NDArray[np.bool_], others: Mapping[str, NDArray[np.bool_]]) -> dict[str, float]:
    """Return the p-values of McNemar's exact test of one method against each other one, Holm-corrected.

    `ours` and the values of `others` are masks (m,) of the correctly ordered pairs.
    """
    if not others:
        return {}
    p = []
    for other in others.values():
        table = [
            [np.sum(ours & other), np.sum(ours & ~other)],
            [np.sum(~ours & other), np.sum(~ours & ~other)],
        ]
        p.append(float(mcnemar(table, exact=True).pvalue))
    return dict(zip(others, map(float, multipletests(p, method="holm")[1]), strict=True))


def significance(found: dict[str, list[Row]], near: bool) -> dict[str, float]:
    """p of the paper's method against each other one, over pairs drawn in every fold."""
    answers: dict[str, list[NDArray[np.bool_]]] = {method: [] for method in found}
    for fold, row in enumerate(found[OURS]):
        pairs = drawn_pairs(np.array(row["grades"]), np.random.default_rng([fold, near]), near)
        for method, rows in found.items():
            answers[method].append(right(np.array(rows[fold]["scores"]), pairs))
    joined = {method: np.concatenate(of) for method, of in answers.items()}
    return mcnemar_holm(joined.pop(OURS), joined)
