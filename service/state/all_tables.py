"""All tables of the state, of which a process else knows those of the modules that it has imported."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from sqlalchemy import Table

import service.state
from cbir.system.features import FeatureUnusable, features
from service.state.schema import tables

JOBS = "service.jobs.job_tables"


def all_tables() -> list[Table]:
    """Return the tables of the state, of jobs and of features, those first that others refer to."""
    list(_modules())  # each adds its tables
    return tables.sorted_tables


def check_tables() -> None:
    """Raise FeatureUnusable if a feature has added tables that it does not declare, so that nothing erases them."""
    declared = {
        each.name for module in _modules() for each in vars(module).values() if isinstance(each, Table)
    }
    if undeclared := tables.tables.keys() - declared:
        raise FeatureUnusable(
            f"the table {min(undeclared)} belongs to no feature: one must name its module in `tables`, and an eraser"
        )


def _modules() -> Iterator[ModuleType]:
    for module in iter_modules(service.state.__path__):
        yield import_module(f"{service.state.__name__}.{module.name}")
    yield import_module(JOBS)
    for feature in features():
        for name in feature.tables:
            yield feature.load(name)
