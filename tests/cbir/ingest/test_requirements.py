"""Without the weights the check names what installs them, and nothing else is disturbed."""

from pathlib import Path

import pytest

from cbir.errors import InvalidInput
from cbir.ingest import burned_in_text, intake_check
from cbir.ingest.intake_check import require_packages
from cbir.system.remedies import install_command


@pytest.mark.parametrize("intake", ["flag", "quarantine"])
def test_a_missing_package_is_one_line_with_the_remedy(intake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(burned_in_text, "find_spec", lambda _: None)
    require_packages("accept")
    with pytest.raises(InvalidInput) as raised:
        require_packages(intake)
    assert install_command("intake") in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_decoder_that_reports_damage_is_needed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_check, "find_spec", lambda _: None)
    require_packages("accept")
    with pytest.raises(InvalidInput, match="simplejpeg"):
        require_packages("flag")


def test_an_older_package_without_the_weights_is_named_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Spec:
        origin = str(tmp_path / "__init__.py")

    monkeypatch.setattr(burned_in_text, "find_spec", lambda _: Spec)
    with pytest.raises(InvalidInput, match=r"rapidocr 3\.10 or later"):
        require_packages("flag")
