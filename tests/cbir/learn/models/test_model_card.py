"""Weights are read against their card, or not at all."""

import hashlib

import pytest

from cbir.descriptors.networks.model_card import read_verified
from cbir.errors import InvalidInput, NotFound

CONTENT = b"weights" * 100
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def test_the_file_of_the_card_is_read_whole(tmp_path):
    (tmp_path / "w").write_bytes(CONTENT)
    assert read_verified(tmp_path / "w", DIGEST) == CONTENT
    assert read_verified(tmp_path / "w", DIGEST, largest=len(CONTENT)) == CONTENT


def test_another_file_is_refused(tmp_path):
    (tmp_path / "w").write_bytes(CONTENT[:-1])
    with pytest.raises(InvalidInput, match="not the file that its card describes"):
        read_verified(tmp_path / "w", DIGEST)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    (tmp_path / "w").write_bytes(CONTENT)
    with pytest.raises(InvalidInput, match="larger"):
        read_verified(tmp_path / "w", DIGEST, largest=len(CONTENT) - 1)


def test_no_file(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(NotFound, match="no weights"):
            read_verified(path, DIGEST)
