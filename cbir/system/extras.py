"""Extras of pyproject.toml: the packages that optional features import, and how to install them."""

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
