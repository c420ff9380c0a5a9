"""Check that the name of the distribution is free on PyPI, or is ours there.

python -m release.check_name            # exit code 1 if it is another project's; 0 if PyPI cannot be asked
"""

import json
import sys
import tomllib
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from release.source_state import ROOT

INDEX = "https://pypi.org/pypi"
SECONDS = 20


def published(name: str, index: str) -> dict[str, Any] | None:
    """Return what an index says of a distribution, None if it has none of that name.

    Raises OSError if the index cannot be asked.
    """
    try:
        with urlopen(f"{index}/{name}/json", timeout=SECONDS) as answer:
            information: dict[str, Any] = json.load(answer)["info"]
            return information
    except HTTPError as error:
        if error.code == 404:
            return None
        raise


def owner_problem(project: dict[str, Any], information: dict[str, Any] | None) -> str | None:
    """Return why `project` of pyproject.toml cannot be published under its name, None if it can.

    information: what the index says of that name, None if it is free. It is ours if it names our repository.
    """
    if information is None:
        return None
    ours = project["urls"]["Source"]
    urls = {*(information.get("project_urls") or {}).values(), information.get("home_page")}
    if any(str(url).rstrip("/") == ours for url in urls):
        return None
    return (
        f"{project['name']} on PyPI is another project's ({information.get('summary') or 'no summary'}): "
        "choose another name in pyproject.toml; the package that is imported keeps its own"
    )


def main(index: str = INDEX) -> None:
    """Print whether the name can be used; exit with 1 if not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    try:
        information = published(project["name"], index)
    except (OSError, ValueError) as error:
        print(f"PyPI could not be asked for the name {project['name']}: {error}")
        return
    if problem := owner_problem(project, information):
        sys.exit(problem)
    print(f"{project['name']} on PyPI is {'free' if information is None else 'ours'}")


if __name__ == "__main__":
    main()
