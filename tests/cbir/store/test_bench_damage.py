"""A sample of bench/damage.py."""

import pytest

from tests import benches


@pytest.mark.slow
def test_no_damage_ends_in_a_traceback_or_a_wrong_answer() -> None:
    result = benches.loaded("damage").campaign(count=12, seed=1, images=60)
    assert result["failures"] == []
    assert result["outcomes"]["opened: warned"] > 0
