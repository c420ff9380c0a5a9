"""Files as small pictures, and what they may look like on another day."""

import cv2
import numpy as np
import pytest
import torch

from cbir.images import from_array
from cbir.images.scaling import pad_resize
from cbir.learn.training.picture_loading import load_pictures
from cbir.learn.training.samplers import augment_images


def test_the_shape_of_an_image_is_kept():
    wide = pad_resize(from_array(np.full((20, 80), 200, np.uint8)), 40)
    assert wide.shape == (40, 40)
    assert (wide[15:25] == 200).all()
    assert (wide[:15] == 0).all()
    assert (wide[25:] == 0).all()
    tall = pad_resize(from_array(np.full((400, 1), 200, np.uint8)), 40)
    assert (tall[:, 19:20] == 200).all()
    assert (tall == 200).sum() == 40


def test_files_and_what_is_none(tmp_path):
    for number in range(3):
        cv2.imwrite(str(tmp_path / f"{number}.png"), np.full((30, 30), 50 * number, np.uint8))
    (tmp_path / "1.png").write_bytes(b"no picture")
    told = []
    paths = [tmp_path / f"{number}.png" for number in range(4)]
    found = load_pictures(paths, 8, progress=told.append)
    assert told == [1, 2, 3, 4]
    assert found.rows.tolist() == [0, 2]
    assert found.pixels.shape == (2, 8, 8)
    assert (found.pixels[1] == 100).all()
    assert len(found.content_hashes) == len(set(found.content_hashes)) == 2
    assert found.burned_in == [False, False]
    assert ["1.png" in found.refused[0], "3.png" in found.refused[1]] == [True, True]


def test_no_files():
    found = load_pictures([], 8)
    assert found.pixels.shape == (0, 8, 8)
    assert found.content_hashes == found.refused == []


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_generator_decides():
    images = torch.rand(9, 1, 16, 16)
    one, same, other = (augment_images(images, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert one.shape == images.shape
    assert 0 <= float(one.min()) <= float(one.max()) <= 1


def test_left_stays_left_and_images_stay_what_they_are():
    images = torch.zeros(200, 1, 32, 32)
    images[:, :, 4:12, 4:12] = 1.0  # up on the left
    found = augment_images(images, generator())
    quarters = [found[:, 0, rows, columns].mean(dim=(1, 2)) for rows, columns in [
        (slice(0, 16), slice(0, 16)), (slice(0, 16), slice(16, 32)),
        (slice(16, 32), slice(0, 16)), (slice(16, 32), slice(16, 32)),
    ]]  # fmt: skip
    assert all((quarters[0] > other + 0.1).all() for other in quarters[1:])
    centre = (found * torch.arange(32.0)).sum(dim=(1, 2, 3)) / found.sum(dim=(1, 2, 3))
    assert float(centre.std()) > 0.3  # but they do move


def test_every_second_image_is_mirrored_where_that_is_asked_for():
    images = torch.zeros(400, 1, 32, 32)
    images[:, :, :, :12] = 1.0
    plain, found = augment_images(images, generator()), augment_images(images, generator(), mirror=True)
    on_the_left = found[:, 0, :, :16].mean(dim=(1, 2)) > found[:, 0, :, 16:].mean(dim=(1, 2))
    assert 0.4 < float(on_the_left.float().mean()) < 0.6
    assert torch.equal(found[~on_the_left], plain[~on_the_left].flip(3))
    assert torch.equal(found[on_the_left], plain[on_the_left])


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_black_and_white(value):
    assert torch.isfinite(augment_images(torch.full((5, 1, 8, 8), value), generator())).all()
