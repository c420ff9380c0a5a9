"""A small collection of phantoms."""

from tests.service.conftest import indexed, pictures

__all__ = ["indexed", "pictures"]  # fixtures of the service's tests, used here too
