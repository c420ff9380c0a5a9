"""Content-based retrieval of medical images: image in, ranked cases out."""

__version__ = "0.1.0"
