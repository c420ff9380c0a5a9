"""Spine from the front and from the side; abdomen, pelvis and hip."""

# Tables of coordinates, a shape on a line or two.
# fmt: off

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from cbir.evaluation.datasets.phantoms.canvas import Canvas

# Tables of coordinates, a shape on a line or two.
# fmt: off
from cbir.evaluation.datasets.phantoms.shapes import (
    OUTLINES,
    Points,
    along,
    ellipse,
    grown,
    mirror,
    rotate,
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

# line, width
PELVIC_LINES = (("crest", 1.3), ("sacroiliac_joint", 0.7), ("iliopectineal_line", 0.7), ("acetabular_roof",
    1.2), ("teardrop", 0.6))


def _draw_pelvis(c: Canvas) -> None:
    """Draw hip bones, sacrum and both femora; (0, 0) is the middle of the inlet, 33 units the half width."""
    o, lines = OUTLINES["pelvis_bones"], OUTLINES["pelvic_lines"]
    wide, tall = (1.06, 0.96) if c.body.female else (0.98, 1.03)
    sides = [np.array([wide, tall]), np.array([-wide, tall])]
    c.bone(*(o["wing"] * s for s in sides), amount=0.62, radius=4.2, cortex=0.9, inner=0.22, grain=0.12)
    c.bone(*(o["ring"] * s for s in sides), amount=0.72, radius=4, cortex=0.9, inner=0.42,
        holes=[o["foramen"] * s for s in sides])
    sacrum(c, 0, -18, 10.2, 0.6)
    coccyx = [ellipse(0, 8 + 2.2 * i, 1.5 - 0.3 * i, 0.95) for i in range(3)]
    c.bone(*coccyx, amount=0.25, radius=1, cortex=0.3)
    c.soft(*(o["sitting_muscle"] * s for s in sides), amount=0.22, edge=6, blur=2)
    for s in sides:
        c.strokes([(lines[name] * s, width) for name, width in PELVIC_LINES], 0.22, 0.25)
        turn, hip = c.pose.normal(0, 3), np.array([26, 3.2]) * s
        c.bone(rotate(o["femur"] * s, turn, hip), amount=0.85, radius=4.8, cortex=1.1, inner=0.44, grain=0.12)
        c.strokes([(rotate(np.array([(32.2, 19), (33.4, 12), (38, 4)]) * s, turn, hip), 0.9)], 0.14, 0.4)


def _implant(c: Canvas, side: float) -> None:
    """Draw a total hip replacement: cup, head and stem of metal."""
    c.soft(ellipse(26 * side, 1.5, 6.6, 6.0), amount=1.0, edge=1.0)
    c.soft(ellipse(26 * side, 3.2, 3.6, 3.6), tube([(27 * side, 4), (35.5 * side, 11)], 1.6), amount=1.2,
        edge=1)
    stem = [(0, 1.6), (0.15, 1.9), (0.6, 1.0), (1, 0.5)]
    c.soft(tube([(35 * side, 8), (37.6 * side, 20), (38 * side, 38)], stem, 1.5), amount=1.5, edge=1.0)


def pelvis_ap(c: Canvas) -> None:
    c.look((0, 4), c.pose.uniform(0.98, 1.07))
    c.soft(grown(OUTLINES["hips"]["skin"], c.body.build), amount=1.35, edge=15)
    spine_front(c, along([(0, -46), (0, -19)], 2, 1.05), 7.2, 0.55, 0.6)
    _draw_pelvis(c)
    gas(c, OUTLINES["pelvis_ap"]["gas"], 0.26)
    if c.person.random() < 0.08:
        _implant(c, 1 if c.person.random() < 0.5 else -1)


def hip_ap(c: Canvas) -> None:
    c.look((-29, 10), c.pose.uniform(1.7, 1.9))
    c.soft(grown(OUTLINES["hips"]["skin"], c.body.build), amount=1.2, edge=15)
    _draw_pelvis(c)
    gas(c, [(-6, -8, 3)], 0.25)
    if c.person.random() < 0.14:
        _implant(c, -1)


def abdomen_ap(c: Canvas) -> None:
    o = OUTLINES["abdomen_ap"]
    f = c.body.build
    c.look((0, 0), c.pose.uniform(0.98, 1.06))
    c.soft(grown(o["skin"], f), amount=1.5, edge=24)
    c.soft(o["lung"], translate(mirror(o["lung"]), 0, 1), amount=-0.6, edge=7, blur=0.7)
    c.soft(grown(o["liver"], f), amount=0.16, edge=7, blur=0.8)  # liver
    # spleen
    c.soft(grown(o["spleen"], f), amount=0.12, edge=4, blur=0.8)
    kidneys = [transform_shape(o["kidney"], -15, y, c.person.uniform(0.95, 1.15), 12) for y in (-10, -13)]
    c.soft(kidneys[0], mirror(kidneys[1]), amount=0.14, edge=4, blur=0.6)
    psoas = [(4, -22), (6, -14), (12, 8), (16, 24), (8, 26), (4, 0)]
    c.soft(psoas, mirror(psoas), amount=0.13, edge=4, blur=0.6)
    for i, (x, y) in enumerate(((-19, -52), (-21, -45), (-20, -38), (-16, -31), (-12, -27.5))):
        reach = (38, 38, 35, 27, 18)[i]
        path = [(-4, y + 1), (x, y + 1), (-reach, y + 11 - i)]
        ribs(c, [path, mirror(path)], 1.9, 0.17)
    spine_front(c, along(scoliosis(c, -54, 18.5), 9, 1.03), 4.9, 0.55, 0.7)
    wing, ring, hole, femur = (OUTLINES["pelvis_bones"][name] * 0.78 + (0, 33.5) for name in ("wing", "ring",
        "foramen", "femur"))
    c.bone(wing, mirror(wing), amount=0.42, radius=3.2, cortex=0.75, inner=0.22, grain=0.12)
    c.bone(ring, mirror(ring), amount=0.45, radius=3, cortex=0.8, inner=0.42, holes=[hole, mirror(hole)])
    c.bone(femur, mirror(femur), amount=0.55, radius=3.8, cortex=0.9, inner=0.44)
    sacrum(c, 0, 19, 8, 0.4)
    gas(c, o["colon"], 0.36)
    gas(c, [(15, -34, 6.5)], 0.45)
    if c.person.random() < 0.15:  # gallstones
        c.bone(*(ellipse(-18 + c.person.normal(0, 1.5), -11 + c.person.normal(0, 1.5), 0.9,
            0.8) for _ in range(5)), amount=0.4, radius=0.8, cortex=0.3, inner=0.2)
