"""Commands of `cbir`, called in this process: most tests are not about the start of a process."""

import json
import re
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from cbir.api.main import main
from cbir.store import Collection

PROGRESS = re.compile(r"^.* \(\d+ s\)\n", re.MULTILINE)


def without_progress(errors: str) -> str:
    """What a command printed to standard error, without the lines of progress that a slow machine gets."""
    return PROGRESS.sub("", errors)


def call(*arguments: object, code: int = 0, **environment: str) -> tuple[str, str]:
    """Run `cbir`; what it printed to standard output and to standard error. It must end with `code`."""
    printed, errors = StringIO(), StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(errors):
        patch.setattr(sys, "argv", ["cbir", *map(str, arguments)])
        for name, value in environment.items():
            patch.setenv(name, value)
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    assert (ended.value.code or 0) == code, errors.getvalue()
    return printed.getvalue(), errors.getvalue()


def index(folder: Path, collection: Path, *more: object, code: int = 0) -> dict[str, Any]:
    """Run `cbir index`; its summary. A new collection gets a profile without a network, unless `more` names one."""
    options = ("--collection", collection, "--jobs", 1, "--format", "json", *more)
    if "--profile" not in more and not Collection.exists(collection):
        options += ("--profile", "huang2012")
    return dict(json.loads(call("index", folder, *options, code=code)[0]))
