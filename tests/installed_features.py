"""Features that are installed for one test, each as a distribution of its own: a module and its metadata."""

import sys
from collections.abc import Iterator
from importlib import invalidate_caches
from pathlib import Path

import pytest

from cbir.system.features import features


def write_distribution(folder: Path, name: str, source: str, entries: str = "") -> None:
    """Write a distribution with a module `name`, which declares FEATURE, into a folder of sys.path."""
    (folder / f"{name}.py").write_text(source, encoding="utf-8")
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[cbir.features]\n{name} = {name}:FEATURE\n{entries}")


class InstalledFeatures:
    """Installs features into a folder of this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str, source: str) -> None:
        """Install a feature whose module has this source, after the import of Feature."""
        write_distribution(self.folder, name, f"from cbir.system.features import Feature\n{source}")
        invalidate_caches()
        _forget()


@pytest.fixture(name="install_feature")
def fixture_install_feature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InstalledFeatures]:
    """Yield what installs a feature; all are gone after the test."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield InstalledFeatures(folder)
    _forget()
    for name in [name for name, module in sys.modules.items() if _lies_in(folder, module)]:
        del sys.modules[name]


def _forget() -> None:
    """Read anew what is installed, and what was read of it."""
    features.cache_clear()
    if catalogues := sys.modules.get("service.languages.catalogues"):
        catalogues.languages.cache_clear()


def _lies_in(folder: Path, module: object) -> bool:
    return str(getattr(module, "__file__", None) or "").startswith(str(folder))
