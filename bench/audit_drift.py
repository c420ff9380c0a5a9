"""How soon a changed source is seen, and how often an unchanged one is blamed.

Streams are drawn from the images of a collection, in weeks of some images. In a changed one, some of the images of
one source come from another source from a week on. Counted are alarms in the checks until 200 images after the
change, and of a year of weekly checks of streams that do not change.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from statsmodels.stats.proportion import proportion_confint

from cbir import settings
from cbir.store import Collection
from service.features.audit.audited_images import AuditedImages, read_audited_images
from service.features.audit.drift import LEAST, WINDOW, alarm_threshold, check_window, count_alarms

EARLIER = 600  # images before the first check

Codes = NDArray[np.int64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--collection", type=Path, required=True)
    parser.add_argument("--source", default="source", help="label key")
    parser.add_argument("--share", type=float, default=0.1, help="of the images that are swapped")
    parser.add_argument("--week", type=int, default=50, help="images a week")
    parser.add_argument("--repeats", type=int, default=4, help="streams of each pair of sources")
    parser.add_argument("--years", type=int, default=4, help="of unchanged streams, of each source")
    options = parser.parse_args()
    with Collection(options.collection) as collection:
        images = read_audited_images(collection, settings.load())
        source, names = images.codes(collection, options.source)
    threshold = alarm_threshold(1)
    print(f"{'source':10} {'swapped for':12} seen within {WINDOW} images   images until seen (median)")
    seen_all = []
    for code, name in enumerate(names):
        for other, other_name in enumerate(names):
            if other != code:
                delays = [
                    images_until_alarm(images, source, code, other, options, threshold, seed)
                    for seed in range(options.repeats)
                ]
                seen = [delay for delay in delays if delay is not None]
                seen_all.append(len(seen) / len(delays))
                median = f"{np.median(seen):.0f}" if seen else "-"
                print(f"{name:10} {other_name:12} {len(seen)} of {len(delays):<20} {median}", flush=True)
    print(f"seen: {np.mean(seen_all):.3f} of the streams")
    alarms = checks = 0
    for code, name in enumerate(names):
        for seed in range(options.years):
            hits, count = unchanged_year(images, source, code, options.week, threshold, seed)
            alarms, checks = alarms + hits, checks + count
        print(f"unchanged, {name}: {alarms} alarms in {checks} checks so far", flush=True)
    if checks:
        low, high = (52 * limit for limit in proportion_confint(alarms, checks, method="beta"))
        print(f"false alarms a year: {52 * alarms / checks:.2f} ({low:.2f} to {high:.2f})")


def images_until_alarm(
    images: AuditedImages,
    source: Codes,
    code: int,
    other: int,
    options: argparse.Namespace,
    threshold: float,
    seed: int,
) -> int | None:
    """Return after how many images the change is seen, None if it is not within the window."""
    generator = np.random.default_rng([seed, code, other])
    stream = draw_blocks(images.block, np.flatnonzero(source == code), generator)[: EARLIER + WINDOW]
    before = len(stream) - WINDOW
    swapped = draw_blocks(images.block, np.flatnonzero(source == other), generator)
    changed = np.flatnonzero(generator.random(WINDOW) < options.share) + before
    stream[changed] = swapped[: len(changed)]
    for added in range(options.week, WINDOW + 1, options.week):
        if _check(images, stream[: before + added], threshold) <= threshold:
            return added
    return None


def unchanged_year(
    images: AuditedImages, source: Codes, code: int, week: int, threshold: float, seed: int
) -> tuple[int, int]:
    """Return the alarms and the checks of a stream in which nothing changes, of a year or as long as images last."""
    generator = np.random.default_rng([seed, code])
    stream = draw_blocks(images.block, np.flatnonzero(source == code), generator)
    ends = range(min(EARLIER, len(stream) // 2), len(stream) + 1, week)[:52]
    return count_alarms([_check(images, stream[:end], threshold) <= threshold for end in ends]), len(ends)


def draw_blocks(block: Codes, rows: Codes, generator: np.random.Generator) -> Codes:
    """Return rows in a random order in which images of one block, as of one patient, follow each other."""
    names, of_row = np.unique(block[rows], return_inverse=True)
    return rows[np.argsort(generator.permutation(len(names))[of_row], kind="stable")]


def _check(images: AuditedImages, stream: Codes, threshold: float) -> float:
    newer, earlier = stream[-WINDOW:], stream[:-WINDOW]
    earlier = earlier[~np.isin(images.block[earlier], images.block[newer])]
    if min(len(newer), len(earlier)) < LEAST:
        return 1.0
    return check_window(images.units, images.block, earlier, newer, threshold)[0]


if __name__ == "__main__":
    main()
