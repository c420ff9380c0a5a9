"""A GPU that passes its trial: encoders run there where one is, else by the same code of torch on the CPU."""

from collections.abc import Iterator

import pytest

from cbir.descriptors.encoders import device_encoder
from cbir.system import device, device_failure

torch = pytest.importorskip("torch")
TRIAL = 2 + len(device_encoder.FAINT)  # images of the trial, which no test sends
HERE = "cuda" if torch.cuda.is_available() else "cpu"


def has_half() -> bool:
    """Return whether torch convolves in half precision here: on a CPU not on every one."""
    values = torch.zeros(1, 1, 3, 3, device=HERE, dtype=torch.float16)
    try:
        torch.nn.functional.conv2d(values, values)
    except RuntimeError:
        return False
    return True


@pytest.fixture
def stand_in_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(device, "_tried", lambda library, needs_driver=False: None)
    monkeypatch.setattr(device, "gpu_name", lambda: "Test GPU")
    monkeypatch.setattr(device_failure, "_failures", device_failure._FailureLog())
    monkeypatch.setattr(device_encoder, "PLACE", HERE)
    if not has_half():
        monkeypatch.setattr(device_encoder, "PRECISIONS", ("float32",))
    device_encoder._load_network.cache_clear()
    yield
    device_encoder._load_network.cache_clear()
