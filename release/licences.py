"""Licences that installed distributions declare, and which distributions the extras of pyproject.toml bring."""

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.source_state import ROOT

BASE = "every installation"  # what the dependencies of pyproject.toml bring
# As SPDX names them. MPL-2.0 asks for the source of its own files alone.
ALLOWED = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "CNRI-Python", "ISC"),
    *("LLVM-exception", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Unlicense", "Zlib", "ZPL-2.1"),
}
SPELLINGS = {  # of classifiers and of the field License, in lower case
    "Apache-2.0": (
        "apache 2.0",
        "apache license, version 2.0",
        "apache 2.0 license",
        "apache software license",
    ),
    "BSD-3-Clause": ("bsd", "bsd license", "3-clause bsd license", "2-clause bsd", "bsd 3-clause license"),
    "ISC": ("isc license (iscl)", "isc license"),
    "MIT": ("mit license", "the mit license (mit)"),
    "MPL-2.0": ("mozilla public license 2.0 (mpl 2.0)",),
    "PSF-2.0": ("python software foundation license",),
    "Unlicense": ("the unlicense (unlicense)",),
    "ZPL-2.1": ("zope public license", "zpl 2.1"),
}
APPROVED = ("OSI Approved", "DFSG approved")  # classifiers that name no licence
SPDX = {text: name for name, texts in SPELLINGS.items() for text in (*texts, name.lower())}


@cache
def installed(name: str) -> Distribution | None:
    """Return the distribution of that name in this environment."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def declared_licence(package: Distribution) -> str:
    """Return the licence of a distribution as an SPDX expression where it is known, else as it is written."""
    metadata = package.metadata
    expression = metadata.get("License-Expression")
    if expression:
        return expression
    classifiers = [line for line in metadata.get_all("Classifier") or () if line.startswith("License ::")]
    texts = [line.rpartition(" :: ")[2] for line in classifiers]
    known = [SPDX.get(text.lower(), text) for text in texts if text not in APPROVED]
    text = (metadata.get("License") or "").strip()
    field = text.splitlines()[0] if text else ""
    if known:
        return " AND ".join(dict.fromkeys(known))
    return SPDX.get(field.lower(), field) or "unknown"


def is_allowed(licence: str) -> bool:
    """Return whether an SPDX expression is allowed: one side of OR, both of AND."""
    while group := re.search(r"\(([^()]*)\)", licence):
        licence = licence.replace(group[0], "MIT" if is_allowed(group[1]) else "refused")
    return any(set(re.split(" AND | WITH ", side)) <= ALLOWED for side in licence.split(" OR "))


def closure(requirements: Iterable[str], environment: dict[str, str]) -> set[str]:
    """Return the names of all distributions that some requirements bring to an environment, themselves included."""
    seen: set[tuple[str, str]] = set()
    waiting = [Requirement(line) for line in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        package = None if name == "cbir" else installed(name)
        for extra in {"", *requirement.extras} - {extra for known, extra in seen if known == name}:
            seen.add((name, extra))
            lines = _own(extra) if name == "cbir" else package.requires or () if package else ()
            context = environment | {"extra": canonicalize_name(extra)}
            waiting += [
                needed
                for needed in map(Requirement, lines)
                if needed.marker is None or needed.marker.evaluate(context)
            ]
    return {name for name, _ in seen} - {"cbir"}


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project


def _own(extra: str) -> list[str]:
    project = _project()
    return list(project["optional-dependencies"][extra] if extra else project["dependencies"])


def packages_by_extra() -> dict[str, set[str]]:
    """Return what each extra installs here beyond the dependencies of every installation, which are BASE."""
    environment = {key: str(value) for key, value in default_environment().items()}
    base = closure(["cbir"], environment)
    extras = _project()["optional-dependencies"]
    return {BASE: base} | {extra: closure([f"cbir[{extra}]"], environment) - base for extra in extras}


def locked_here() -> set[str]:
    """Return the distributions of requirements.lock whose markers hold in this environment."""
    text = (ROOT / "requirements.lock").read_text()
    lines = re.findall(r"^([\w.-]+==[^\\\n]+)", text, re.MULTILINE)
    needed = [Requirement(line.strip()) for line in lines]
    return {canonicalize_name(item.name) for item in needed if item.marker is None or item.marker.evaluate()}
