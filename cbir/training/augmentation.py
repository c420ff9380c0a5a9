"""What a radiograph may look like on another day: turned a little, moved, nearer, brighter. Mirrored if asked to."""

import math

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

TURN = 10.0  # degrees
MOVE = 0.06  # of the side
ZOOM = 0.1
BRIGHTNESS = 0.1  # of full white
CONTRAST = 0.15


def augment_images(images: Tensor, generator: torch.Generator, mirror: bool = False) -> Tensor:
    """Images (n, c, h, w), from 0 to 1, each changed by amounts drawn evenly up to those above.

    generator: of the CPU; it alone decides. mirror: every second one also from left to right, which makes a left
    knee a right one: only for what looks the same on both sides.
    """
    drawn = (2 * torch.rand(len(images), 6, generator=generator) - 1).to(images.device)
    angle = drawn[:, 0] * math.radians(TURN)
    size = 1 + drawn[:, 1] * ZOOM
    moves = 2 * MOVE * drawn[:, 2:4]  # the grid goes from -1 to 1
    cosine, sine = size * angle.cos(), size * angle.sin()
    rows = (torch.stack([cosine, -sine, moves[:, 0]], 1), torch.stack([sine, cosine, moves[:, 1]], 1))
    grid = affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    moved = grid_sample(images, grid, align_corners=False)
    if mirror:
        turned = (torch.rand(len(images), generator=generator) < 0.5).to(images.device)
        moved = torch.where(turned[:, None, None, None], moved.flip(3), moved)
    contrast = (1 + CONTRAST * drawn[:, 4])[:, None, None, None]
    brightness = (BRIGHTNESS * drawn[:, 5])[:, None, None, None]
    return ((moved - 0.5) * contrast + 0.5 + brightness).clamp(0, 1)
