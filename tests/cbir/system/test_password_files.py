"""Files that settings name for passwords."""

from pathlib import Path

import pytest

from cbir.errors import DatabaseUnavailable, InvalidInput
from cbir.system.files import read_password


@pytest.mark.parametrize("content", ["a b ", "a b \n", "a b \r\n"])
def test_a_password_ends_before_the_end_of_its_line(tmp_path: Path, content: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(content.encode())
    assert read_password(file, "collection_password_file") == "a b "


def test_a_file_that_cannot_be_read_is_named_with_its_setting(tmp_path: Path) -> None:
    file = tmp_path / "password"
    with pytest.raises(InvalidInput, match=r"^index_password_file .*password cannot be read: No such file"):
        read_password(file, "index_password_file")
    file.write_bytes(b"\xff")
    with pytest.raises(DatabaseUnavailable, match=r"cannot be read: not UTF-8$"):
        read_password(file, "collection_password_file", DatabaseUnavailable)
