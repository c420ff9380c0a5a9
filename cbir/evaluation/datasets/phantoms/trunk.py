"""Abdomen, pelvis and hip."""

# Tables of coordinates, a shape on a line or two.
# fmt: off

import numpy as np

from cbir.evaluation.datasets.phantoms.canvas import Canvas
from cbir.evaluation.datasets.phantoms.outlines import OUTLINES, grown
from cbir.evaluation.datasets.phantoms.shapes import (
    along,
    ellipse,
    mirror,
    rotate,
    transform_shape,
    translate,
    tube,
)
from cbir.evaluation.datasets.phantoms.spine import gas, sacrum, scoliosis, spine_front
from cbir.evaluation.datasets.phantoms.thorax import ribs

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
