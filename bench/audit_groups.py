"""Whether an audit sees that a group is retrieved worse, and how often it says so of groups that are not.

    python -m bench.audit_groups --collection COLLECTION [--images 3000] [--repeats 20]

Patients are divided at random into two sexes, four ages and three scanners. The vectors of one scanner are mixed with
noise, in several shares. Without noise, a group that is called worse is a false alarm; with it, the others of its key
are only better. An audit is a draw of images and groups.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from statsmodels.stats.proportion import proportion_confint

from cbir import settings
from cbir.store import Collection
from service.features.audit.audited_images import find_independent, read_audited_images
from service.features.audit.label_errors import VOTERS
from service.features.audit.label_values import (
    compare_groups,
    correct_holm,
    precision_of,
)
from service.features.audit.messages import GroupFinding

NOISE = (0.0, 0.5, 0.75, 1.0, 1.5)  # length of the noise beside vectors of length 1
GROUPS = {"sex": 2, "age": 4, "scanner": 3}
NOISY = ("scanner", "0")

Codes = NDArray[np.int64]


def compare(
    units: NDArray[np.float32], block: Codes, label: Codes, noise: float, random: np.random.Generator
) -> list[GroupFinding]:
    """Return the groups of patients that are divided at random, with noise in the vectors of one of them."""
    _, patient = np.unique(block, return_inverse=True)
    codes = {key: random.integers(0, count, patient.max() + 1)[patient] for key, count in GROUPS.items()}
    noisy = codes[NOISY[0]] == int(NOISY[1])
    direction = random.normal(0, 1, units.shape)
    direction *= noise / np.linalg.norm(direction, axis=1, keepdims=True)
    mixed = units + direction * noisy[:, None]
    mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
    precision = precision_of(find_independent(mixed.astype(np.float32), block, VOTERS), label)
    qualities = list[GroupFinding]()
    for key, count in GROUPS.items():
        names = [str(code) for code in range(count)]
        qualities += compare_groups(key, names, codes[key], precision, label, block)
    return correct_holm(qualities)


def share(hits: int, count: int) -> str:
    low, high = proportion_confint(hits, count, method="beta")
    return f"{hits} of {count} ({low:.2f} to {high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collection", type=Path, required=True)
    parser.add_argument("--label", default="label")
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--repeats", type=int, default=20)
    args = parser.parse_args()
    with Collection(args.collection) as collection:
        images = read_audited_images(collection, settings.load())
        label, _ = images.codes(collection, args.label)
    print("| noise | mean difference of P@10 | noisy group found | others called worse |\n|---|---|---|---|")
    for noise in NOISE:
        random = np.random.default_rng(0)
        differences, found, wrong, others = list[float](), 0, 0, 0
        for _ in range(args.repeats):
            rows = np.sort(random.permutation(len(images))[: args.images])
            for group in compare(images.units[rows], images.block[rows], label[rows], noise, random):
                if (group.key, group.value) == NOISY:
                    differences.append(group.difference)
                    found += group.worse
                else:
                    wrong, others = wrong + group.worse, others + 1
        drop = f"{np.mean(differences):+.3f}"
        print(f"| {noise} | {drop} | {share(found, args.repeats)} | {share(wrong, others)} |", flush=True)


if __name__ == "__main__":
    main()
