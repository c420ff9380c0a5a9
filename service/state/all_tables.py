"""All tables of the state, of which a process else knows those of the modules that it has imported."""

from importlib import import_module
from pkgutil import iter_modules

from sqlalchemy import Table

import service.state
from service.state.schema import tables

ELSEWHERE = (  # modules that add tables too
    "service.features.annotate.reader_study.tables",
    "service.features.saved.cases.tables",
    "service.features.saved.cohorts.tables",
    "service.features.usage.tables",
    "service.jobs.job_tables",
)


def all_tables() -> list[Table]:
    """Return the tables of all modules of this package and of those elsewhere, those first that others refer to."""
    for module in iter_modules(service.state.__path__):  # each adds its tables
        import_module(f"{service.state.__name__}.{module.name}")
    for name in ELSEWHERE:
        import_module(name)
    return tables.sorted_tables
