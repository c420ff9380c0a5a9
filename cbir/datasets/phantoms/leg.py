"""Knee, ankle and foot; drawn as the right side of the patient."""

# Tables of coordinates, a shape on a line or two.
# fmt: off

import numpy as np

from cbir.datasets.phantoms.arm import METACARPAL, PHALANX, TIP, even
from cbir.datasets.phantoms.canvas import Canvas
from cbir.datasets.phantoms.shapes import Points, Profile, ellipse, rotate, tube


def knee_ap(c: Canvas) -> None:
    f, varus = c.body.build, c.pose.normal(2, 2)
    c.soft([(-22 * f, -65), (-21 * f, -35), (-21.5 * f, -10), (-21 * f, 6), (-20 * f, 20), (-21 * f, 65),
        (18 * f, 65), (18.5 * f, 22), (20.5 * f, 5), (22 * f, -8), (22 * f, -35), (24 * f, -65)],
        amount=0.75, edge=18)
    femur = [(-8, -70), (-7.6, -40), (-9, -28), (-13.5, -19), (-17.3, -12), (-16.8, -5), (-13, -1.2),
        (-8, -0.6), (-4.6, -3.2), (-2.2, -7.6), (0.8, -8.4), (3.8, -4), (7.5, -0.2), (13, -0.6),
        (17.2, -4.5), (18.3, -11), (15.8, -18), (10.5, -27), (8.6, -40), (9, -70)]
    c.bone(rotate(femur, varus, (0, -2)), amount=0.75, radius=8.5, cortex=1.7, inner=0.42, grain=0.09)
    tibia = [(-17.6, 3.6), (-12, 2.6), (-5, 3.0), (-2.6, 0.2), (-0.6, 2.2), (1.6, -0.4), (4.2, 2.8),
        (11, 2.8), (17.4, 3.2), (18.6, 7.5), (15.5, 15), (11.5, 24), (9, 38), (8.6, 70), (-6.5, 70),
        (-6.6, 38), (-8.6, 24), (-13, 15), (-17.8, 9)]
    c.bone(tibia, amount=0.72, radius=8.5, cortex=1.5, inner=0.42, grain=0.09)
    fibula: Profile = even((0, 0.7), (0.04, 1.35), (0.1, 1.4), (0.2, 0.85), (0.5, 0.8), (1, 0.85))
    c.bone(tube([(-17.5, 8.5), (-16, 30), (-14.5, 70)], fibula, 3.1), amount=0.45, radius=2.9, cortex=0.95,
        inner=0.35)
    # patella
    c.bone(ellipse(c.pose.normal(-0.3, 0.8), -14.5, 9.2, 9.6), amount=0.14, radius=6, cortex=1, inner=0.55)
    c.strokes([([(-15, 12), (-6, 15), (5, 15), (15, 11)], 0.8)], 0.06, 0.5)


def knee_lateral(c: Canvas) -> None:
    f, flex = 0.5 + 0.5 * c.body.build, c.pose.normal(22, 7)
    c.look((4, 0), 1.0)
    hip = (3.0, -4.0)
    thigh = rotate([(-17 * f, -75), (-16 * f, -30), (-21 * f, -14), (-20, 0), (0, 10), (20 * f, 4),
        (24 * f, -30), (30 * f, -75)], flex * 0.55, hip)
    shank = rotate([(-17, -6), (-14.5 * f, 12), (-11 * f, 30), (-10 * f, 75), (28 * f, 75), (28 * f, 35),
        (22 * f, 10), (15, -8)], -flex * 0.45, hip)
    c.soft(thigh, shank, amount=0.72, edge=18)
    femur = [(-4.5, -80), (-4.5, -34), (-5.5, -22), (-9.3, -14), (-11.2, -7), (-9.8, -1), (-4.5, 3.2),
        (3, 4.2), (11, 3.0), (17, -1.2), (19.3, -7.5), (17.5, -13.3), (12.8, -16.2), (9.5, -22),
        (8.5, -34), (9, -80)]
    turned_femur = rotate(femur, flex * 0.55, hip)
    c.bone(turned_femur, amount=0.75, radius=8, cortex=1.6, inner=0.42, grain=0.09)
    c.bone(rotate(ellipse(11, -6.2, 8.9, 8.9), flex * 0.55, hip), amount=0.16, radius=8, cortex=1, inner=0.3)
    tibia = [(-10.5, 7.2), (-3, 5.6), (2, 4.3), (5, 5.6), (12, 6.0), (18.2, 7.0), (18.4, 10.5), (14.5, 16),
        (11, 26), (9.5, 40), (9.5, 80), (-5.5, 80), (-6, 40), (-8.0, 27), (-11.3, 20), (-11.2, 14)]
    c.bone(rotate(tibia, -flex * 0.45, hip), amount=0.72, radius=7.5, cortex=1.5, inner=0.42, grain=0.09)
    fibula = even((0, 0.7), (0.04, 1.35), (0.1, 1.35), (0.2, 0.85), (1, 0.85))
    c.bone(tube(rotate([(17.5, 11.5), (15, 32), (13.5, 80)], -flex * 0.45, hip), fibula, 2.9), amount=0.4,
        radius=2.7, cortex=0.9, inner=0.35)
    patella = [(-17.5, -19), (-13.5, -18.8), (-12.2, -14), (-13.2, -8.6), (-16.6, -5.8), (-19.4, -9),
        (-19.6, -15)]
    c.bone(rotate(patella, flex * 0.25, hip), amount=0.5, radius=3.5, cortex=0.8, inner=0.5)
    c.soft(rotate(ellipse(-11.5, 4.5, 3.5, 6, -15), 0), amount=-0.1, edge=3, blur=1)  # fat pad of Hoffa


def ankle_ap(c: Canvas) -> None:
    f, tilt = 0.6 + 0.4 * c.body.build, c.pose.normal(0, 3)
    c.look((0, 2), 1.06)
    c.soft([(-18 * f, -65), (-15 * f, -25), (-16.5 * f, 0), (-20.5 * f, 16), (-19.5 * f, 32), (-23, 65),
        (21, 65), (18 * f, 32), (19.5 * f, 15), (16.5 * f, 0), (15 * f, -25), (18 * f, -65)], amount=0.7,
        edge=14)
    heel = [(-8, 31), (0, 29), (9, 31), (11.5, 40), (10, 58), (-10, 58), (-12, 42)]
    c.bone(rotate(heel, tilt, (0, 15)), amount=0.2, radius=7, cortex=0.9, inner=0.6)
    c.bone([(-20, 44), (-14, 36), (0, 40), (14, 36), (19, 44), (18, 62), (-20, 62)], amount=0.22, radius=6,
        cortex=0.8, inner=0.6)
    talus = [(-11.6, 13.8), (-6, 12.4), (0, 12.9), (6, 12.2), (10.2, 13.2), (11.4, 20), (11.6, 27),
        (8, 30.5), (0, 29), (-8, 31), (-12.6, 27), (-12.4, 19)]
    c.bone(rotate(talus, tilt, (0, 15)), amount=0.62, radius=6.5, cortex=1.2, inner=0.48, grain=0.09)
    tibia = [(-7.5, -70), (-7.6, -25), (-10, -8), (-12.6, 2), (-12.0, 8.6), (-6, 9.8), (0, 9.6),
        (6.5, 9.6), (11.2, 11.0), (12.2, 17), (13.8, 21.6), (16.6, 20.5), (17.6, 13), (16.2, 3),
        (12.2, -8), (8.8, -25), (8, -70)]
    c.bone(tibia, amount=0.72, radius=7.5, cortex=1.5, inner=0.42, grain=0.09)
    fibula = [(-16.6, -70), (-16.2, -25), (-16.6, -8), (-18.6, 5), (-19.3, 16), (-17.6, 26), (-15.2, 28),
        (-13.9, 22), (-13.6, 12), (-11.6, 4), (-10.8, -8), (-11.2, -25), (-11.6, -70)]
    c.bone(fibula, amount=0.5, radius=3.4, cortex=1.0, inner=0.38)


def ankle_lateral(c: Canvas) -> None:
    f, flex = 0.6 + 0.4 * c.body.build, c.pose.normal(0, 5)
    c.look((0, 2), 1.05)
    about = (6, 10)
    leg = rotate([(-9 * f, -75), (-8 * f, -25), (-9, -5), (-20, 14), (10, 20), (24, 18), (21 * f, -5),
        (22 * f, -25), (26 * f, -75)], flex, about)
    sole = [(-75, 14), (-48, 15), (-22, 6), (-6, -6), (20, -4), (33, 12), (38, 28), (35, 41), (22, 44),
        (2, 39), (-20, 36), (-48, 40), (-75, 43)]
    c.soft(leg, sole, amount=0.62, edge=14)
    tibia = [(0, -80), (0, -25), (-3, -6), (-5.6, 3), (-3.8, 6.6), (3, 4.6), (9.5, 5.4), (14.2, 9.8),
        (16.6, 5.5), (15.6, -5), (13.6, -25), (14, -80)]
    c.bone(rotate(tibia, flex, about), amount=0.72, radius=6.5, cortex=1.4, inner=0.42, grain=0.09)
    c.bone(rotate(tube([(17, -80), (13.5, -25), (7.5, 17)], even((0, 1), (0.7, 1.0), (0.88, 1.5),
        (0.95, 1.4), (1, 0.6)), 2.9), flex, about), amount=0.36, radius=3, cortex=0.8, inner=0.35)
    talus = [(-8, 12), (-3.6, 8.6), (3, 6.8), (9, 7.6), (13.6, 11.6), (19, 14.6), (19, 17.6), (12.6, 17.4),
        (6, 20.6), (-1, 21.5), (-7, 21.8), (-12.5, 20.2), (-15.4, 16), (-13.6, 11.8)]
    c.bone(talus, amount=0.55, radius=5.5, cortex=1.1, inner=0.48, grain=0.12)
    heel = [(-14.2, 23.6), (-6, 23.6), (-1, 22.0), (5, 21.6), (13, 18.6), (20, 16.6), (28.6, 16.4),
        (32.6, 22), (33, 31), (29.6, 38.6), (23, 39.6), (12, 35.4), (0, 32.6), (-11, 31.8), (-15.8, 28.4)]
    c.bone(heel, amount=0.62, radius=6.5, cortex=1.1, inner=0.46, grain=0.13)
    c.bone([(-16.4, 11.6), (-19.6, 11), (-21.8, 15.6), (-20.6, 21.0), (-17.6, 22), (-15.8, 16.4)],
        amount=0.4, radius=3, cortex=0.7, inner=0.5)
    c.bone([(-16.8, 24.2), (-24, 23), (-28.6, 25), (-28, 31.4), (-20, 33.4), (-17, 30.4)], amount=0.4,
        radius=4, cortex=0.8, inner=0.5)
    c.bone([(-22.4, 12), (-30.6, 15.5), (-31, 20), (-30, 24), (-22, 21.6)], amount=0.38, radius=3.5,
        cortex=0.7, inner=0.5)
    rays = [tube([(-31 + i, 18 + 3.4 * i), (-70, 28 + 2.6 * i)], even((0, 1.5), (0.1, 1.3), (0.3, 0.9),
        (1, 0.9)), 2.6) for i in range(4)]
    for ray in rays:
        c.bone(ray, amount=0.28, radius=2.4, cortex=0.7, inner=0.38)


# base x, base y, lean in degrees, half width, lengths of metatarsal and phalanges
TOES = ((-9.0, 4.0, -5, 3.3, (22.0, 11.5, 7.5)), (-3.2, 1.0, -3, 1.9, (26.0, 8.5, 3.2, 2.8)), (1.8, 2.8, 1,
    1.75, (24.0, 7.6, 2.7, 2.6)), (6.6, 5.4, 5, 1.7, (23.0, 6.8, 2.3, 2.4)), (11.4, 9.4, 10, 1.8,
    (21.0, 6.0, 2.0, 2.3)))


def foot_ap(c: Canvas) -> None:
    f = 0.88 + 0.12 * c.body.build
    spread, hallux = c.pose.uniform(0.7, 1.5), float(np.clip(c.person.normal(5, 4), 0, 11))
    c.look((0, 1), 1.06)
    metatarsals: list[Points] = []
    phalanges: list[Points] = []
    skins = []
    for row, (x, y, lean, width, lengths) in enumerate(TOES):
        angle, at = lean * spread + c.pose.normal(0, 0.8), np.array([x, y])
        skin = []
        for joint, length in enumerate(lengths):
            length *= 1 if joint < 1 else c.pose.uniform(0.85, 1.0)
            direction = np.array([np.sin(np.radians(angle)), -np.cos(np.radians(angle))])
            profile = METACARPAL if joint == 0 else TIP if joint == len(lengths) - 1 else PHALANX
            bone = tube([at, at + direction * length], profile, width * (1, 0.9, 0.78, 0.75)[joint])
            (metatarsals if joint == 0 else phalanges).append(bone)
            skin.append(at + direction * length * 0.7)
            at = at + direction * (length + 0.55)
            angle += hallux if row == 0 and joint == 0 else c.pose.normal(0, 2) - (2 if joint == 0 else 0)
        skins.append(tube([*skin, at + direction * 0.8], even((0, 1.1), (0.4, 1), (0.85, 0.9),
            (0.95, 0.65), (1, 0.3)), width * 1.75))
    sole = [(-13 * f, 8), (-15.2 * f, -6), (-15.6 * f, -18), (-12, -27), (0, -29), (9, -24), (16 * f, -12),
        (17.2 * f, 2), (16.5 * f, 20), (13.5 * f, 36), (9 * f, 50), (0, 54), (-9 * f, 50), (-12.5 * f, 36),
        (-13 * f, 22)]
    c.soft(sole, *skins, amount=0.45, edge=9)
    c.soft([(-12 * f, 62), (-12 * f, 32), (-8, 20), (6, 20), (11 * f, 34), (11 * f, 62)], amount=0.3,
        edge=10, blur=3)
    c.bone([(-8, 29), (-3, 25.5), (3, 27), (7.5, 33), (8.5, 44), (6, 53), (-3, 54), (-7.6, 46),
        (-8.6, 36)], amount=0.26, radius=6, cortex=0.9, inner=0.5)
    c.bone(ellipse(-4.6, 27.6, 6.2, 5.6), amount=0.24, radius=5, cortex=0.9, inner=0.5)  # head of the talus
    tarsals = ([(-12.4, 5.2), (-6.0, 5.0), (-5.4, 10), (-6.4, 14.6), (-11.6, 14.8), (-12.8, 10)],
        [(-5.2, 2.4), (-1.2, 2.6), (-1.0, 8), (-1.8, 13), (-5.2, 13.4), (-5.4, 8)], [(-0.4, 4.2),
        (4.2, 4.8), (3.8, 10), (2.0, 14), (-1.0, 13.6), (-0.6, 9)], [(-12.2, 16.2), (-4, 14.8),
        (2.4, 15.4), (2.8, 19), (-3, 20.8), (-10.6, 22.2), (-13.4, 20)], [(4.6, 7), (12.2, 10.6),
        (11.6, 17), (9.6, 24.5), (4.4, 25.5), (3.6, 18), (4.2, 11.5)])
    c.bone(*tarsals, amount=0.5, radius=4, cortex=0.7, inner=0.55, grain=0.12)
    c.bone(*metatarsals, amount=0.58, radius=2.2, cortex=0.7, inner=0.42)
    c.bone(*phalanges, amount=0.46, radius=1.7, cortex=0.5, inner=0.45)
    c.bone(ellipse(-10.9, -14.6, 1.1, 1.5), ellipse(-8.4, -14.8, 1.0, 1.4), amount=0.24, radius=1.1,
        cortex=0.3)  # sesamoids
