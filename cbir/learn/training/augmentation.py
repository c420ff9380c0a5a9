"""Augmentation of radiographs: small rotations, shifts, zooms and changes of brightness, and optional mirroring."""

import math

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

ROTATION = 10.0  # degrees
SHIFT = 0.06  # of the side
ZOOM = 0.1
BRIGHTNESS = 0.1  # of full white
CONTRAST = 0.15


def augment_images(images: Tensor, generator: torch.Generator, mirror: bool = False) -> Tensor:
    """Change each image at random, uniformly up to the amounts above.

    Parameters
    ----------
    images : (n, c, h, w)
        Values from 0 to 1, on any device.
    generator : torch.Generator
        On the CPU; the only source of randomness.
    mirror : bool
        Mirror half of the images from left to right; that makes a left knee a right one, so only for images that
        look the same on both sides.
    """
    amounts = (2 * torch.rand(len(images), 6, generator=generator) - 1).to(images.device)
    angle = amounts[:, 0] * math.radians(ROTATION)
    size = 1 + amounts[:, 1] * ZOOM
    shifts = 2 * SHIFT * amounts[:, 2:4]  # the grid goes from -1 to 1
    cosine, sine = size * angle.cos(), size * angle.sin()
    rows = (torch.stack([cosine, -sine, shifts[:, 0]], 1), torch.stack([sine, cosine, shifts[:, 1]], 1))
    grid = affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    moved = grid_sample(images, grid, align_corners=False)
    if mirror:
        mirrored = (torch.rand(len(images), generator=generator) < 0.5).to(images.device)
        moved = torch.where(mirrored[:, None, None, None], moved.flip(3), moved)
    contrast = (1 + CONTRAST * amounts[:, 4])[:, None, None, None]
    brightness = (BRIGHTNESS * amounts[:, 5])[:, None, None, None]
    return ((moved - 0.5) * contrast + 0.5 + brightness).clamp(0, 1)
