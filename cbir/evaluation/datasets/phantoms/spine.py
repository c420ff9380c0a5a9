"""Vertebrae from the front and from the side; cervical, thoracic and lumbar spine."""

# Tables of coordinates, a shape on a line or two.
# fmt: off

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from cbir.evaluation.datasets.phantoms.canvas import Canvas
from cbir.evaluation.datasets.phantoms.outlines import OUTLINES, grown
from cbir.evaluation.datasets.phantoms.shapes import (
    Points,
    along,
    ellipse,
    mirror,
    transform_shape,
    translate,
    tube,
)
from cbir.evaluation.datasets.phantoms.thorax import ribs

Fit = Callable[[ArrayLike], Points]


def _vertebrae(segments: Sequence[tuple[Points, float, float]], width: float, growth: float) -> list[Fit]:
    """Return, for each segment, the transform from a box of -1..1 to the place of its vertebra."""
    return [partial(transform_shape, x=x, y=y, scale=(width * (1 + growth * index), height / 2),
        degrees=lean) for index, ((x, y), height, lean) in enumerate(segments)]


def spine_front(c: Canvas, segments: Sequence[tuple[Points, float, float]], width: float, amount: float,
    process: float) -> None:
    """Draw vertebrae from the front.

    Parameters
    ----------
    c : Canvas
        Canvas to draw on.
    segments : sequence
        Segments from `along`.
    width : float
        Half width of the first body.
    amount : float
        Attenuation.
    process : float
        Reach of the transverse processes.
    """
    o, fits = OUTLINES["spine_front"], _vertebrae(segments, width, 0.035)
    for index, fit in enumerate(fits):
        half = width * (1 + 0.035 * index)
        c.bone(fit(o["lamina"]), amount=amount * 0.3, radius=half * 0.25, cortex=half * 0.06)
    paired = [(fit, side) for fit in fits for side in (-1, 1)]
    transverse = [fit(tube([(side * 0.8, -0.18), (side * (1 + process * 0.6), -0.3),
        (side * (1 + process), -0.22)], 0.15)) for fit, side in paired]
    pedicles = [fit(ellipse(side * 0.62, -0.3, 0.17, 0.27)) for fit, side in paired]
    holes = [fit(ellipse(side * 0.62, -0.3, 0.08, 0.15)) for fit, side in paired]
    bodies = [fit(o["body"] * (1, 0.82)) for fit in fits]
    c.bone(*bodies, amount=amount, radius=width * 0.55, cortex=width * 0.1, inner=0.5, grain=0.09)
    c.bone(*pedicles, amount=amount * 0.5, radius=width * 0.1, cortex=width * 0.05, holes=[])
    c.soft(*holes, amount=-amount * 0.2, edge=width * 0.08)
    c.bone(*transverse, amount=amount * 0.42, radius=width * 0.16, cortex=width * 0.05, inner=0.4)
    spinous = [fit(o["spinous"]) for fit in fits]
    c.bone(*spinous, amount=amount * 0.55, radius=width * 0.12, cortex=width * 0.05, inner=0.5)


def spine_side(c: Canvas, segments: Sequence[tuple[Points, float, float]], depth: float, amount: float,
    process: float) -> None:
    """Draw vertebrae from the side, facing left.

    Parameters
    ----------
    c : Canvas
        Canvas to draw on.
    segments : sequence
        Segments from `along`.
    depth : float
        Half depth of the first body.
    amount : float
        Attenuation.
    process : float
        Length of the spinous processes.
    """
    o, fits = OUTLINES["spine_side"], _vertebrae(segments, depth, 0.02)
    arch = tube([(1.0, -0.25), (1.5, 0.0), (1.9, 0.35), (1.5 + process, 0.7)], o["arch_profile"])
    arches = [fit(arch) for fit in fits]
    c.bone(*(fit(o["body"] * (1, 0.8)) for fit in fits), amount=amount, radius=depth * 0.75,
        cortex=depth * 0.13, inner=0.48, grain=0.09)
    c.bone(*arches[0::2], amount=amount * 0.5, radius=depth * 0.3, cortex=depth * 0.09)
    c.bone(*arches[1::2], amount=amount * 0.5, radius=depth * 0.3, cortex=depth * 0.09)
    c.bone(*(fit(o["facet"]) for fit in fits), amount=amount * 0.35, radius=depth * 0.25, cortex=depth * 0.08)


def sacrum(c: Canvas, x: float, y: float, scale: float, amount: float) -> None:
    """Draw the sacrum from the front.

    Parameters
    ----------
    c : Canvas
        Canvas to draw on.
    x, y : float
        Middle of the upper end plate.
    scale : float
        Half width.
    amount : float
        Attenuation.
    """
    c.bone(transform_shape(OUTLINES["sacrum"]["outline"], x, y, scale), amount=amount, radius=scale * 0.6,
        cortex=scale * 0.07, inner=0.5, grain=0.09)
    foramina = [transform_shape(ellipse(side * (0.5 - 0.07 * i), 0.5 + 0.42 * i, 0.13, 0.1, side * 25), x, y,
        scale) for i in range(4) for side in (-1, 1)]
    c.soft(*foramina, amount=-amount * 0.4, edge=scale * 0.1, blur=scale * 0.02)
    crest = [transform_shape(ellipse(0, 0.55 + 0.4 * i, 0.07, 0.14), x, y, scale) for i in range(4)]
    c.bone(*crest, amount=amount * 0.35, radius=scale * 0.07, cortex=scale * 0.03)
    arcs = [(transform_shape(mirror(p) if s else p, x, y, scale), scale * 0.05) for p in ([(0.2, 0.42),
        (0.5, 0.36), (0.85, 0.5)], [(0.2, 0.84), (0.45, 0.78), (0.75, 0.9)]) for s in (0, 1)]
    c.strokes(arcs, amount * 0.18, scale * 0.02)


def gas(c: Canvas, lumps: ArrayLike, amount: float) -> None:
    """Draw gas in the bowel, different in every exposure.

    Parameters
    ----------
    c : Canvas
        Canvas to draw on.
    lumps : (n, 3) array_like of (x, y, size)
        Centres and sizes.
    amount : float
        Attenuation that the gas replaces.
    """
    bubbles = []
    for x, y, size in np.asarray(lumps, float):
        if c.pose.random() < 0.75:
            px, py = x + c.pose.normal(0, 1.5), y + c.pose.normal(0, 1.5)
            r = size * c.pose.uniform(0.55, 1.15)
            t = np.linspace(0, 2 * np.pi, 9, endpoint=False)
            wall = r * (1 + 0.22 * c.pose.standard_normal(9))
            bubbles.append(np.stack([px + 1.2 * wall * np.cos(t), py + 0.85 * wall * np.sin(t)], 1))
    if bubbles:
        c.soft(*bubbles, amount=-amount * c.pose.uniform(0.6, 1.1), edge=3.5, blur=0.5)


def scoliosis(c: Canvas, top: float, bottom: float) -> list[tuple[float, float]]:
    """Return a nearly straight axis with the patient's slight curve.

    Parameters
    ----------
    c : Canvas
        Canvas to draw on.
    top, bottom : float
        Ends of the axis.
    """
    bend = c.person.normal(0, 1.1)
    return [(0, top), (bend, top * 0.6 + bottom * 0.4), (-bend * 0.5, top * 0.2 + bottom * 0.8), (0, bottom)]


def lumbar_ap(c: Canvas) -> None:
    o = OUTLINES["lumbar_ap"]
    c.look((0, 0), c.pose.uniform(0.98, 1.08))
    c.soft(grown(o["skin"], c.body.build), amount=1.5, edge=30)
    c.soft(o["psoas"], mirror(o["psoas"]), amount=0.14, edge=5, blur=0.7)
    ribs(c, [[(s * 7, -45 + 9 * i), (s * 16, -41.5 + 9 * i),
        (s * (28 - 7 * i), -33 + 8 * i)] for i in range(3) for s in (-1, 1)], 2.2, 0.2)
    c.bone(o["wing"], mirror(o["wing"]), amount=0.5, radius=4, cortex=1, inner=0.25)
    sacrum(c, 0, 29, 15, 0.55)
    gas(c, o["gas"], 0.3)
    spine_front(c, along(scoliosis(c, -60, 28.5), 7, 1.03), 8.0, 0.78, 0.72)


def lumbar_lateral(c: Canvas) -> None:
    o = OUTLINES["lumbar_lateral"]
    lordosis = c.person.normal(1, 0.18)
    c.look((3, 0), c.pose.uniform(0.98, 1.08))
    c.soft(grown(o["skin"], c.body.build), amount=1.6, edge=24)
    c.soft(o["diaphragm"], amount=-0.5, edge=12, blur=1)
    gas(c, [(-24, -12, 6), (-26, 6, 5), (-22, 22, 6), (-14, -20, 4)], 0.28)
    path = [(5, -62), (4, -42), (-1 - 2 * lordosis, -18), (-3 - 4 * lordosis, 2), (1 - 3 * lordosis, 20),
        (6.5, 34)]
    spine_side(c, along(path, 7, 1.03), 7.6, 0.85, 1.5)
    c.bone(o["bone"], amount=0.7, radius=6, cortex=1.0, inner=0.48, grain=0.09)
    for dx, dy in ((0.0, 0.0), (2.5, 1.5)):
        c.bone(translate(o["wing"], dx, dy), amount=0.22, radius=2.4, cortex=0.7, inner=0.12)
    ribs(c, [[(14, -44 + 9 * i), (4, -36 + 9 * i), (-9, -24 + 9 * i)] for i in range(-1, 2)], 2.1, 0.16)


def thoracic_ap(c: Canvas) -> None:
    o = OUTLINES["thoracic_ap"]
    c.look((0, 0), c.pose.uniform(0.98, 1.07))
    c.soft([(-40, -70), (-40, 70), (40, 70), (40, -70)], amount=1.3 + 0.2 * c.body.build, edge=30)
    c.soft(o["right"], translate(mirror(o["right"]), 1, 2), amount=-0.42, edge=9, blur=0.6)
    c.soft(o["heart"], amount=0.4, edge=10, blur=1)
    c.soft(tube([(0, -62), (0.4, -36), (0, -14)], 2.4), amount=-0.3, edge=2, blur=0.5)
    for side in (-1, 1):
        back = [[(side * 5, y), (side * 13, y - 2.5), (side * 24, y + 1 + 0.05 * y),
            (side * 40, y + 13 + 0.1 * y)] for y in np.arange(-46, 50, 7.8)]
        ribs(c, back, 2.9, 0.2)
    clavicle = tube([(-5, -36), (-15, -39), (-30, -45), (-44, -44)], 1.7)
    c.bone(clavicle, mirror(clavicle), amount=0.28, radius=1.6, cortex=0.5)
    c.soft(ellipse(20, 31, 7, 4), amount=-0.22, edge=4, blur=0.6)
    spine_front(c, along(scoliosis(c, -58, 56), 15, 1.025), 4.4, 0.6, 0.75)


def cervical_lateral(c: Canvas) -> None:
    o = OUTLINES["cervical_lateral"]
    bow = c.pose.normal(1, 0.45)
    c.look((0, 0), c.pose.uniform(0.97, 1.07), c.pose.normal(0, 2))
    c.soft(grown(o["neck"], 0.75 + 0.25 * c.body.build), amount=0.85, edge=20)
    c.soft(o["shoulders"], amount=0.9, edge=16, blur=2.5)
    c.bone(o["skull"], amount=0.85, radius=7, cortex=1.6, inner=0.3)
    c.bone(ellipse(3, -40, 4.6, 5.8, 15), amount=0.35, radius=3.6, cortex=0.6)  # mastoid
    c.bone(o["jaw"], amount=0.55, radius=3, cortex=1, inner=0.4)
    c.bone(*(tube([(-44 + 4.2 * i, -31), (-43.4 + 4.2 * i, -42)], [(0, 0.4), (0.5, 0.9), (0.8, 1.25),
        (1, 0.9)], 1.5) for i in range(6)), amount=0.5, radius=1.5, cortex=0.5)
    airway = tube([(-20, -48), (-8.5, -38), (-8.5 - bow, -20), (-11.5 - bow, 0), (-12.5, 16), (-8, 34),
        (-4, 60)], o["airway_profile"], 3.1)
    c.soft(airway, amount=-0.42, edge=2.6, blur=0.5)
    c.bone(tube([(-21, -8.5), (-15, -10), (-10.5, -9.5)], 1.0), amount=0.3, radius=1, cortex=0.4)  # hyoid
    path = [(1, -28), (-1.5 - 2.2 * bow, -14), (-2.5 - 3 * bow, 2), (-0.5 - 2 * bow, 18), (5, 34), (10, 48)]
    spine_side(c, along(path, 7, 1.01), 5.4, 0.62, 2.3)
    dens = tube([(1.5, -24), (0.4, -33), (-0.2, -38.5)], [(0, 1.4), (0.5, 1.05), (0.9, 0.9), (1, 0.4)], 2.5)
    c.bone(dens, amount=0.5, radius=2.3, cortex=0.6)
    arch = tube([(4, -34), (12, -33.5), (18.5, -32)], [(0, 0.7), (0.6, 0.8), (0.9, 1.5), (1, 0.8)], 1.5)
    c.bone(ellipse(-4.2, -34.2, 1.4, 2.5, 10), arch, amount=0.42, radius=1.5, cortex=0.5)  # atlas
