"""A GPU that tests imagine: torch's name of it is the processor's, and it passes its trial."""

import pytest

from cbir.system import device, device_failure


@pytest.fixture(autouse=True)
def _sound_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget failures of a GPU before and after each test."""
    monkeypatch.setattr(device_failure, "_failures", device_failure._FailureLog())


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let trials pass."""
    monkeypatch.setattr(device, "_tried", lambda library, needs_driver=False: None)
    monkeypatch.setattr(device, "gpu_name", lambda: "Test GPU")
