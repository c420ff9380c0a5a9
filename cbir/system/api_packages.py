"""Packages of the API that can be called as functions, and modules of 1.0 under their earlier names."""

import inspect
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

MOVED = {  # those that the documentation of 1.0 names
    "cbir.active": "service.features.annotate.active",
    "cbir.client": "service.client",
    "cbir.datasets": "cbir.evaluation.datasets",
    "cbir.descriptors.concatenated": "cbir.descriptors.network_descriptors",
    "cbir.descriptors.edge_histogram_150": "cbir.descriptors.edge_histogram",
    "cbir.descriptors.embedding_descriptor": "cbir.descriptors.network_descriptors",
    "cbir.descriptors.encoder_descriptor": "cbir.descriptors.network_descriptors",
    "cbir.descriptors.huang2012": "cbir.descriptors",
    "cbir.evaluation.fusion": "cbir.evaluation.run_files",
    "cbir.evaluation.metrics": "cbir.evaluation",
    "cbir.evaluation.metrics.anmrr": "cbir.evaluation.rank_metrics",
    "cbir.evaluation.metrics.average_precision": "cbir.evaluation.rank_metrics",
    "cbir.evaluation.metrics.capped_precision": "cbir.evaluation.rank_metrics",
    "cbir.evaluation.metrics.interpolated_precision": "cbir.evaluation.rank_metrics",
    "cbir.evaluation.metrics.knn_error": "cbir.evaluation.rank_metrics",
    "cbir.evaluation.metrics.roc": "cbir.evaluation.rank_metrics",
    "cbir.evaluation.metrics.top_precision": "cbir.evaluation.rank_metrics",
    "cbir.evaluation.metrics.vector_retrieval": "cbir.evaluation.rank_metrics",
    "cbir.evaluation.metrics.voting": "cbir.evaluation.rank_metrics",
    "cbir.grading": "cbir.learn.grading",
    "cbir.grading.adarank": "cbir.learn.grading.boosted_rankers",
    "cbir.grading.rankboost": "cbir.learn.grading.boosted_rankers",
    "cbir.grading.severity_ranker": "cbir.learn.grading",
    "cbir.grading.tuned_cnn_ranker": "cbir.learn.grading.cnn_ranker",
    "cbir.losses": "cbir.learn.losses",
    "cbir.losses.classification": "cbir.learn.losses.embedding_losses",
    "cbir.losses.metric_learning": "cbir.learn.losses.embedding_losses",
    "cbir.losses.ordinal_loss": "cbir.learn.losses.embedding_losses",
    "cbir.losses.ranknet": "cbir.learn.losses.score_losses",
    "cbir.losses.s_ndcg_loss": "cbir.learn.losses.score_losses",
    "cbir.losses.score_loss": "cbir.learn.losses.score_losses",
    "cbir.losses.similarity_loss": "cbir.learn.losses.embedding_losses",
    "cbir.losses.sodeep": "cbir.learn.losses.rank_losses",
    "cbir.losses.toprank": "cbir.learn.losses.score_losses",
    "cbir.models": "cbir.learn.models",
    "cbir.models.backbones": "cbir.descriptors.networks.backbones",
    "cbir.models.embedding_head": "cbir.descriptors.networks.embedder",
    "cbir.models.linear": "cbir.learn.models",
    "cbir.models.linear.kernel_map": "cbir.learn.models.kernel_ranker",
    "cbir.models.linear.ranking_svm": "cbir.learn.models.linear_rankers",
    "cbir.models.linear.top_push": "cbir.learn.models.linear_rankers",
    "cbir.severity": "cbir.learn.severity",
    "cbir.severity.bayesian_ranker": "cbir.learn.severity.severity_rankers",
    "cbir.severity.stored_network": "cbir.learn.severity.severity_rankers",
    "cbir.encoders": "cbir.descriptors.encoders",
    "cbir.python_api": "cbir.api",
    "cbir.rerank.fuzzy_eprf": "cbir.rerank.eprf",
    "cbir.rerank.nprf": "cbir.rerank.eprf",
    "cbir.rerank.pc": "cbir.rerank.simple_rerankers",
    "cbir.training": "cbir.learn.training",
}


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


def present_name(name: str) -> str | None:
    """Return the name that a module of 1.0 has now; None for one that has not moved."""
    parts = name.split(".")
    for end in range(len(parts), 1, -1):
        if moved := MOVED.get(".".join(parts[:end])):
            return ".".join([moved, *parts[end:]])
    return None


class MovedModules(MetaPathFinder, Loader):
    """Finds modules by the names of 1.0."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for a module that has moved."""
        if not fullname.startswith("cbir.") or present_name(fullname) is None:
            return None
        return spec_from_loader(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        """Put the module that has moved in the place of a new one."""
        name = module.__name__
        present = present_name(name) or name
        warnings.warn(f"{name} is now {present}", DeprecationWarning, stacklevel=2)
        sys.modules[name] = import_module(present)


def find_moved_modules() -> None:
    """Let imports of earlier names work."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedModules())
