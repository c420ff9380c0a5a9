"""Remedies in messages: how to install the packages of an extra, and the name that was probably meant."""

from collections.abc import Iterable

EXTRAS = {  # packages that are imported where a feature needs them, and the extra that brings each
    "alembic": "postgres",
    "authlib": "oidc",
    "babel": "serve",
    "dicomweb_client": "pacs",
    "grpc": "milvus",
    "highdicom": "pacs",
    "dicomanonymizer": "privacy",
    "flask": "serve",
    "fsspec": "remote",
    "gunicorn": "serve",
    "httpx": "client",
    "huggingface_hub": "hub",
    "ir_measures": "evaluate",
    "itsdangerous": "serve",
    "joserfc": "oidc",
    "markdown_it": "serve",
    "markupsafe": "serve",
    "matplotlib": "evaluate",
    "nibabel": "volume",
    "onnx": "deep",
    "openTSNE": "map",
    "onnxscript": "hub",
    "open_clip": "hub",
    "pandas": "pandas",
    "prometheus_client": "serve",
    "psycopg": "postgres",
    "pymilvus": "milvus",
    "pynetdicom": "pacs",
    "pytorch_metric_learning": "deep",
    "rapidocr": "intake",
    "ray": "ray",
    "reportlab": "pdf",
    "requests": "pacs",
    "s3fs": "remote",
    "safetensors": "deep",
    "simplejpeg": "intake",
    "statsmodels": "evaluate",
    "tensorboard": "deep",
    "timm": "hub",
    "tokenizers": "text",
    "torch": "deep",
    "torchvision": "deep",
    "transformers": "hub",
    "waitress": "waitress",
    "werkzeug": "serve",
}


def install_command(extra: str) -> str:
    """Return the command that installs an extra; cbir has no release yet, so it comes from its own folder."""
    return f"pip install '.[{extra}]' in the folder of cbir's source"


def missing_package(error: ModuleNotFoundError) -> str | None:
    """Return a line that names the missing package and how to install it; None for a module of no extra."""
    extra = EXTRAS.get((error.name or "").partition(".")[0])
    return f"this needs {error.name}: {install_command(extra)}" if extra else None


LIKENESS = 0.7  # of two names, see difflib.SequenceMatcher.ratio


def close_name(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is most like `name`; None if none is."""
    from difflib import get_close_matches  # only for messages

    matches = get_close_matches(name, list(names), 1, LIKENESS)
    return matches[0] if matches else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return "; did you mean 'X'?" for the end of a sentence about an unknown name, or "" if no name is like it."""
    close = close_name(name, names)
    return f"; did you mean {close!r}?" if close else ""
