"""Packages that can be called as the function of the same name: `cbir.search(...)`, and `cbir.search.Request`."""

import inspect
import sys
from collections.abc import Callable
from functools import partial
from pkgutil import resolve_name
from types import ModuleType
from typing import Any


class CallablePackage(ModuleType):
    """A package whose help shows signature and documentation of its function too."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_function"]()(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.__dict__["_function"]())

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """Documentation of the function, then that of the package."""
        package_doc, name = self.__dict__["__doc__"], self.__name__
        documented = inspect.getdoc(self.__dict__["_function"]()) or ""
        summary, _, details = documented.partition("\n\n")
        parameters = [
            each.replace(annotation=inspect.Parameter.empty)
            for each in self.__signature__.parameters.values()
        ]
        call = f"{name}{inspect.Signature(parameters)}"
        return f"{summary}\n\n{call}\n\n{details}\n\nThe package {name}: {inspect.cleandoc(package_doc)}"


def make_callable(package: str, function: str) -> None:
    """Let a package be called.

    Parameters
    ----------
    package : str
        Name of the package, which is being imported.
    function : str
        Its function as "module:name", imported when it is used.
    """
    module = sys.modules[package]
    load: Callable[[], Any] = partial(resolve_name, function)
    module.__dict__["_function"] = load
    module.__class__ = CallablePackage
