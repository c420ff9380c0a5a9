"""Say whether the name of the distribution is ours or free on PyPI: `python -m release.name_on_index`.

Ends with 1 if it belongs to another project. An index that does not answer is said, and no reason to stop.
"""

import json
import sys
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org"
SECONDS = 10.0
MOST_BYTES = 8_000_000


def state_of_name(name: str, repository: str, index: str = INDEX) -> tuple[bool, str]:
    """Return whether `name` may be used on an index, and a line that says why.

    It may where it is free, where one of its links leads to `repository`, and where nothing is known.
    """
    try:
        with urllib.request.urlopen(f"{index}/pypi/{name}/json", timeout=SECONDS) as answer:
            info = json.loads(answer.read(MOST_BYTES))["info"]
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 404:
            return True, f"{name} is free on {index}"
        return True, f"{index} answers {error.code}: whose {name} is was not checked"
    except (OSError, ValueError, KeyError) as error:
        return True, f"{index} was not read ({type(error).__name__}): whose {name} is was not checked"
    links = [info.get("home_page"), *(info.get("project_urls") or {}).values()]
    if any(link and link.startswith(repository) for link in links):
        return True, f"{name} {info.get('version')} on {index} is ours"
    return False, f"{name} on {index} belongs to another project: {info.get('package_url') or index}"


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    usable, line = state_of_name(project["name"], project["urls"]["Source"])
    print(line)
    sys.exit(0 if usable else 1)


if __name__ == "__main__":
    main()
