"""Card, driver, versions, and what cannot be imported."""

import os
import shutil
import subprocess
import sys
from importlib import import_module

from step_results import attempt, report

from cbir.system.device import choose_device, faiss_gpu_problem

LIBRARIES = ("torch", "torchvision", "numpy", "scipy", "sklearn", "cv2", "onnxruntime", "faiss")
MODULES = (
    "cbir.search",
    "cbir.store",
    "cbir.gallery.flat_index",
    "cbir.descriptors.encoders.device_encoder",
    "cbir.learn.training.sorter_training",
    "cbir.learn.training.embedding_training",
    "cbir.learn.severity.severity_rankers",
    "cbir.descriptors.network_descriptors",
)


def card() -> dict[str, str]:
    """Return what the driver says of the first card."""
    query = "--query-gpu=name,memory.total,driver_version"
    if shutil.which("nvidia-smi") is None:
        return {"skipped": "no GPU"}
    said = subprocess.run(
        ["nvidia-smi", query, "--format=csv,noheader"], capture_output=True, text=True, timeout=20, check=True
    )
    return {"card": said.stdout.strip().splitlines()[0]}


def versions() -> dict[str, str]:
    """Return the version of each library, or why it cannot be imported."""
    found = {"python": sys.version.split()[0], "cores": str(os.cpu_count())}
    for name in LIBRARIES:
        try:
            found[name] = import_module(name).__version__
        except Exception as error:
            found[name] = f"missing: {error}"[:120]
    return found


def missing() -> dict[str, list[str]]:
    """Return the modules that cannot be imported."""
    problems = []
    for name in MODULES:
        try:
            import_module(name)
        except Exception as error:
            problems.append(f"{name}: {type(error).__name__}: {error}"[:160])
    return {"modules": problems}


def device() -> dict[str, str]:
    """Return what `auto` means here, and whether FAISS searches on the GPU."""
    return {"auto": str(choose_device("auto")), "faiss": faiss_gpu_problem() or "searches on the GPU"}


if __name__ == "__main__":
    report("environment.commit", commit=os.environ.get("COMMIT", "unknown"), date=os.environ.get("DATE", ""))
    attempt("environment.card", card)
    attempt("environment.versions", versions)
    attempt("environment.missing", missing)
    attempt("environment.device", device)
