"""Text burned into pixels: recall and false alarms on phantoms and on images of a folder, and its time.

    python -m bench.intake_text [--phantoms 1000] [--size 512] [--images FOLDER --left-out medpix,busi --count 500]

Phantoms have a strip of text in every seventh image, most have a lead letter. A strip counts if half of its ink
differs by 40 grey values or more from what it covers: on a white border it cannot be seen. Text of several fonts,
sizes, contrasts and places is drawn on images of a folder, which are checked without it too. Folders of images that
have text already are left out.
"""

import argparse
import random
import time
from pathlib import Path
from unittest.mock import patch

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import ImageDraw, ImageFont
from statsmodels.stats.proportion import proportion_confint

from cbir.evaluation.datasets.phantoms import draw_phantom, drawing
from cbir.images import read_images
from cbir.ingest.burned_in_text import find_burned_in_text

Grey = NDArray[np.uint8]
VISIBLE = 40  # grey values that half of a strip's ink differs from what it covers
INKED = 128  # of 235
NAMES = (
    "MUELLER",
    "SCHMIDT",
    "JANE",
    "GARCIA",
    "LOPEZ",
    "CHEN",
    "DUPONT",
    "SMITH",
    "IVANOV",
    "OKAFOR",
    "TANAKA",
)
FONTS = (
    "DejaVuSans.ttf",
    "DejaVuSansMono.ttf",
    "DejaVuSerif.ttf",
    "LiberationSans-Regular.ttf",
    "LiberationMono-Regular.ttf",
)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--phantoms", type=int, default=1000)
    parser.add_argument("--size", type=int, default=512, help="longer side of phantoms in pixels")
    parser.add_argument("--images", type=Path, help="folder of images to draw text on")
    parser.add_argument("--left-out", default="", help="folders in it that have text already")
    parser.add_argument("--count", type=int, default=500, help="images of the folder")
    parser.add_argument("--list", type=Path, help="folder of images; prints what is found in each")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def personal_text(rng: Generator) -> str:
    name, first = rng.choice(NAMES, 2)
    date = f"{rng.integers(1, 29):02d}.{rng.integers(1, 13):02d}.{rng.integers(1930, 2020)}"
    forms = (
        f"{name}, {first}",
        f"{name}^{first} {date}",
        f"ID {rng.integers(10**6, 10**7)}",
        date,
        f"{name} {first} M 54Y",
    )
    return str(forms[rng.integers(len(forms))])


def draw_text(grey: Grey, rng: Generator) -> Grey:
    """Return the picture with a line of text: 10 to 40 pixels high at 512, with or without a plate."""
    height, width = grey.shape
    text, longer = personal_text(rng), max(grey.shape)
    size = int(rng.uniform(max(9, longer / 40), max(12, longer / 14)))
    font = ImageFont.truetype(FONTS[rng.integers(len(FONTS))], size)
    box = font.getbbox(text)
    while (box[2] - box[0] > width - 6 or box[3] - box[1] > height - 6) and size > 9:
        size -= 1
        font = ImageFont.truetype(font.path, size)
        box = font.getbbox(text)
    text = text[: max(4, int(len(text) * min(1.0, (width - 6) / (box[2] - box[0]))))]
    box = font.getbbox(text)
    across, down = int(box[2] - box[0]), int(box[3] - box[1])
    right, low = max(2, width - across - 3), max(2, height - down - 3)
    left = int(rng.choice([2, right, rng.integers(1, right + 1)]))
    top = int(rng.choice([2, low, rng.integers(1, low + 1)]))
    mask = PillowImage.new("L", (width, height), 0)
    ImageDraw.Draw(mask).text((left - box[0], top - box[1]), text, font=font, fill=255)
    share, drawn = np.asarray(mask, np.float32) / 255, grey.copy()
    around = drawn[top : top + down, left : left + across]
    if rng.random() < 0.25:
        plate = int(rng.choice([0, 255]))
        drawn[max(0, top - 2) : top + down + 2, max(0, left - 2) : left + across + 2] = plate
        ink = float(abs(plate - rng.integers(90, 256)))
    else:
        dark, bright = np.percentile(around, [10, 90])
        contrast = rng.uniform(70, 255)
        ink = min(255.0, bright + contrast) if 255 - bright > dark else max(0.0, dark - contrast)
    drawn = np.clip(drawn * (1 - share) + ink * share, 0, 255).astype(np.uint8)
    if rng.random() < 0.5:
        quality = [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(75, 96))]
        drawn = np.asarray(
            cv2.imdecode(cv2.imencode(".jpg", drawn, quality)[1], cv2.IMREAD_GRAYSCALE), np.uint8
        )
    return drawn


def print_share(what: str, hits: int, count: int) -> None:
    low, high = proportion_confint(hits, count, method="beta") if count else (0.0, 1.0)
    print(
        f"{what}: {hits} of {count} = {hits / max(count, 1):.4f} (95 % interval {low:.4f} to {high:.4f})",
        flush=True,
    )


def measure_phantoms(args: argparse.Namespace) -> None:
    contrasts: list[float] = []
    burn = drawing.text_strip

    def burn_and_note(pixels: Grey, words: str, above: bool) -> None:
        before, ink = pixels.copy(), np.zeros_like(pixels)
        burn(ink, words, above)
        burn(pixels, words, above)
        contrasts.append(float(np.median(np.abs(pixels.astype(int) - before)[ink > INKED])))

    found = {True: [0, 0], False: [0, 0]}
    faint = [0, 0]
    spent = 0.0
    with patch.object(drawing, "text_strip", burn_and_note):
        for index in range(args.phantoms):
            contrasts.clear()
            grey = draw_phantom(index, seed=args.seed, size=args.size).pixels
            started = time.process_time()
            is_found = find_burned_in_text(grey) is not None
            spent += time.process_time() - started
            counts = faint if contrasts and contrasts[0] < VISIBLE else found[bool(contrasts)]
            counts[0] += is_found
            counts[1] += 1
            if counts is not faint and is_found != bool(contrasts):
                print(f"  {'missed' if contrasts else 'false alarm'}: phantom {index}", flush=True)
            if index % 500 == 499:
                print(f"  {index + 1} drawn: {found[True]} with a strip, {found[False]} without", flush=True)
    print(f"phantoms of {args.size} pixels")
    print_share("  found, of those with a strip", *found[True])
    print_share("  found, of those with a strip that can hardly be seen", *faint)
    print_share("  false alarms, of those without a strip", *found[False])
    print(f"  processor time: {spent / args.phantoms * 1000:.0f} ms an image")


def measure_folder(args: argparse.Namespace) -> None:
    left_out = set(args.left_out.split(","))
    paths = sorted(path for path in args.images.rglob("*.jpg") if path.parent.name not in left_out)
    rng = np.random.default_rng(args.seed)
    hits = tried = alarms = 0
    spent = 0.0
    chosen = random.Random(args.seed).sample(paths, min(args.count, len(paths)))
    for path in chosen:
        grey = next(iter(read_images(path))).grey
        started = time.process_time()
        alarm = find_burned_in_text(grey) is not None
        spent += time.process_time() - started
        if alarm:
            alarms += 1
            print(f"  false alarm, or text: {path.parent.name}/{path.name}", flush=True)
        elif min(grey.shape) >= 100:
            tried += 1
            hits += find_burned_in_text(draw_text(grey, rng)) is not None
    print(f"images of a folder, without {args.left_out or 'exceptions'}")
    print_share("  found, of images with text drawn on them", hits, tried)
    print_share("  alarms, of images as they are", alarms, len(chosen))
    print(f"  processor time: {spent / len(chosen) * 1000:.0f} ms an image")


def main() -> None:
    args = options()
    cv2.setNumThreads(1)
    if args.list:
        for path in sorted(args.list.iterdir()):
            text = find_burned_in_text(next(iter(read_images(path))).grey)
            print(path.name, f"text, {text.characters} characters" if text else "no text", flush=True)
        return
    if args.phantoms:
        measure_phantoms(args)
    if args.images:
        measure_folder(args)


if __name__ == "__main__":
    main()
