"""Marks tests by what they need: the extras `deep`, `pacs` and `ray`, features, processes or a browser."""

import atexit
import gc
import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from flask.testing import FlaskClient
from werkzeug.routing import Rule

from cbir.system.features import features
from cbir.system.remedies import EXTRAS
from tests.forked_workers import forked_workers, spawned_workers
from tests.postgresql_server import PostgresqlServer, missing_reason
from tests.slow_files import slow_files

TESTS = Path(__file__).parent
# Folders and files of tests, and the mark of all tests in them.
MARKED = {
    "service/features/annotate/active": "deep",
    "service/features/label_studio": "deep",
    "cbir/descriptors/test_concatenated.py": "deep",
    "cbir/descriptors/encoders/hub": "deep",
    "cbir/descriptors/encoders/test_efficientnet_lite.py": "deep",
    "cbir/descriptors/encoders/test_external_data.py": "deep",
    "cbir/descriptors/encoders/test_inflated_resnet.py": "deep",
    "cbir/system/test_device_description.py": "deep",
    "cbir/system/test_device_encoder.py": "deep",
    "cbir/system/test_device_memory.py": "deep",
    "cbir/system/test_device_trial.py": "deep",
    "cbir/learn/grading/test_cnn.py": "deep",
    "cbir/learn/grading/test_rankers.py": "deep",
    "cbir/learn/grading/test_tuned_cnn.py": "deep",
    "cbir/learn/grading/test_tuned_cnn_command.py": "deep",
    "cbir/learn/losses": "deep",
    "cbir/learn/models": "deep",
    "cbir/learn/training": "deep",
    "service/features/annotate/test_annotate.py": "deep",
    "service/features/report/test_structured_report.py": "pacs",
    "indexer/dicomweb": "pacs",
    "indexer/ray_cluster": "ray",
    "indexer/receive": "pacs",
    "indexer/test_intake.py": "pacs",
    "indexer/test_nema.py": "pacs",
    "service/test_orthanc.py": "pacs",
    "cbir/descriptors/test_describe_command.py": "e2e",
    "docs/test_notebooks.py": "e2e",
    "docs/test_pages.py": "e2e",
    "docs/test_site.py": "e2e",
    "e2e": "e2e",
    "indexer/test_index.py": "e2e",
    "service/test_access_browser.py": "e2e",
    "service/test_access_start.py": "e2e",
    "service/state/test_replicas.py": "e2e",
    "service/test_patience.py": "e2e",
    "service/test_server.py": "e2e",
}
FEATURES = "features"  # mark of tests that need those of this distribution
OF_FEATURES = (  # folders and files with this mark
    "cbir/api/test_command_tree.py",
    "cbir/system/test_command_examples.py",
    "docs",
    "e2e/features",
    "service/features",
    "service/state/test_replicas.py",
    "service/test_access_walk.py",
    "service/test_api_descriptions.py",
    "service/test_code_samples.py",
    "service/test_generated_clients.py",
    "service/test_indexed_walk.py",
    "service/test_languages.py",
    "service/test_openapi.py",
    "service/test_schemathesis.py",
    "service/test_verify_state.py",
)
SLOW_FILES = slow_files()
MODULES = {"deep": "torch", "pacs": "pynetdicom", "e2e": "playwright", "ray": "ray"}
NOT_INSTALLED = {module for module in EXTRAS if not find_spec(module)}  # of those that only extras bring
SERVED = {"served", "browser"}  # fixtures that start a service or a browser


def pytest_configure(config: pytest.Config) -> None:
    """Make tests independent of the load of the machine, and of how a shell starts them."""
    # Threads of BLAS and OpenMP wait for each other in a loop, which takes the cores from the other processes.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Half of Hypothesis' own number: they differ from run to run, and every change is a run.
    hypothesis.settings.register_profile("whole", deadline=None, max_examples=50)
    hypothesis.settings.register_profile("check", deadline=None, max_examples=10)
    hypothesis.settings.load_profile(config.getoption("hypothesis_profile", None) or "whole")
    # A shell that starts pytest with `&` has it ignore SIGINT, and so would the processes that tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@cache
def _marks(path: Path) -> set[str]:
    """Return the marks of the tests in a file."""
    relative = path.relative_to(TESTS).as_posix()
    marked = [*MARKED.items(), *((prefix, FEATURES) for prefix in OF_FEATURES)]
    marks = {mark for prefix, mark in marked if f"{relative}/".startswith(f"{prefix}/")}
    return marks | ({"slow"} if relative in SLOW_FILES else set())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files and folders whose extra is not installed, or that `-m` leaves out: importing them takes long."""
    marks = _marks(collection_path)
    missing = [mark for mark in marks if mark in MODULES and not find_spec(MODULES[mark])]
    missing += [FEATURES] if FEATURES in marks and not features() else []
    left_out = [mark for mark in marks if f"not {mark}" in config.option.markexpr.split(" and ")]
    return True if missing or left_out else None


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add the marks of each test's file, and `e2e` to tests of a running service."""
    for item in items:
        for mark in _marks(item.path):
            item.add_marker(mark)
        if SERVED & set(getattr(item, "fixturenames", ())):
            item.add_marker("e2e")
        if item.get_closest_marker(FEATURES) and not features():
            item.add_marker(pytest.mark.skip(reason="no feature is installed"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Keep modules and tests, which live until the end, out of every garbage collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # The interpreter frees them when it ends: libraries report what is left as leaked.
        atexit.register(gc.unfreeze)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    """Skip a test whose fixtures need an extra that is not installed."""
    with _skipped_without_extra():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Skip a test that needs an extra that is not installed."""
    with _skipped_without_extra():
        return (yield)


@contextmanager
def _skipped_without_extra() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            if (
                isinstance(cause, ModuleNotFoundError)
                and (cause.name or "").partition(".")[0] in NOT_INSTALLED
            ):
                pytest.skip(f"{cause.name} is not installed")
            cause = cause.__cause__
        raise


def pytest_report_header() -> list[str]:
    """Name the extras that are missing, whose tests are left out, and whether there are real images."""
    missing = [
        f"{module} is not installed: the tests marked {mark} are left out"
        for mark, module in MODULES.items()
        if not find_spec(module)
    ]
    if not features():
        missing.append(f"no feature is installed: the tests marked {FEATURES} are left out")
    images = [] if os.environ.get("CBIR_DATA") else ["CBIR_DATA is not set: tests on real images are skipped"]
    return missing + images


@pytest.fixture(scope="session", autouse=True)
def _state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the state of services that fixtures of many tests start out of the user's own folder."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("state")
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def _own_state_home(_state_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a state folder of its own, which does not exist yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(_state_home / secrets.token_hex(8)))


@pytest.fixture(scope="session", autouse=True)
def _forked_workers() -> Iterator[None]:
    """Fork worker processes, which is faster."""
    with forked_workers():
        yield


@pytest.fixture(name="spawned_workers", scope="module")
def _spawned_workers() -> Iterator[None]:
    """Spawn worker processes as the product does, for the tests of their start and end."""
    with spawned_workers():
        yield


@pytest.fixture(scope="session", autouse=True)
def _compiled_addresses() -> Iterator[None]:
    """Compile each address once, not for every test's service: most of the time of making one."""
    compile_rule = Rule.compile
    kept: dict[Any, dict[str, Any]] = {}

    def kept_rule(rule: Rule) -> None:
        key = rule.rule, rule.subdomain, str(rule.defaults), rule.strict_slashes, rule.merge_slashes
        if key not in kept:
            compile_rule(rule)
            kept[key] = {
                "_parts": rule._parts,
                "_trace": rule._trace,
                "_converters": rule._converters,
                "arguments": rule.arguments,
                "_build": rule._build.__func__,
                "_build_unknown": rule._build_unknown.__func__,
            }
        for name, value in kept[key].items():
            setattr(rule, name, value.__get__(rule) if name.startswith("_build") else value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rule, "compile", kept_rule)
        yield


@pytest.fixture(autouse=True)
def buffered_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Flask's test client close the files that responses are read from."""
    unbuffered = FlaskClient.open

    def open_buffered(self: FlaskClient, *args: Any, buffered: bool = True, **kwargs: Any) -> Any:
        return unbuffered(self, *args, buffered=buffered, **kwargs)

    monkeypatch.setattr(FlaskClient, "open", open_buffered)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A PostgreSQL server; each test uses a schema of its own."""
    if reason := missing_reason():
        pytest.skip(reason)
    server = PostgresqlServer()
    try:
        yield server
    finally:
        server.stop()
