"""Dockerfile, compose files and workflows, as far as they can be checked without a container engine.

`make lint-delivery` checks them with hadolint, zizmor and the schemas of compose files and workflows.
"""

import fnmatch
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.project.compose import interpolated, read_compose
from tests.project.dockerfile import DOCKERFILE, ROOT, context, lines

COMPOSE = ("compose.yaml", "deploy/compose.tls.yaml", "deploy/compose.gpu.yaml")
ORTHANC = ("compose.yaml", "deploy/compose.orthanc.yaml")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(name: str) -> dict[str, Any]:
    """Return the content of a YAML file of the repository."""
    content: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())
    return content


def extras() -> set[str]:
    """Return the names of the extras of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return set(project["optional-dependencies"])


def test_all_that_is_copied_is_in_the_context(tmp_path: Path) -> None:
    copied = context(tmp_path)
    for arguments in lines(DOCKERFILE, "COPY"):
        if not arguments.startswith("--from"):
            for source in arguments.split()[:-1]:
                assert (copied / source).exists(), source
    assert not fnmatch.filter([path.name for path in copied.rglob("*")], "*.pyc")
    assert not (copied / "tests").exists()


def test_a_user_without_rights_runs_the_image() -> None:
    (user,) = lines(DOCKERFILE, "USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    assert lines(DOCKERFILE, "HEALTHCHECK")


def test_the_base_image_is_pinned() -> None:
    (base,) = re.findall(r"^ARG BASE=(.*)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+-slim-\w+@sha256:[0-9a-f]{64}", base)
    assert {line.split()[0] for line in lines(DOCKERFILE, "FROM")} == {"${BASE}"}


def test_dependencies_are_installed_before_the_source_is_copied() -> None:
    install = DOCKERFILE.index("--constraints requirements.lock")
    assert install < DOCKERFILE.index("COPY cbir cbir")
    assert "--require-hashes" in DOCKERFILE[:install]


def test_the_default_extras_are_locked() -> None:
    (default,) = re.findall(r"^ARG EXTRAS=(.*)$", DOCKERFILE, re.MULTILINE)
    assert default == "pacs,evaluate"
    assert set(default.split(",")) < extras()
    assert "for extra in serve $EXTRAS; do" in DOCKERFILE  # what the image starts
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert {"numpy", "pynetdicom", "ir-measures", "torch"} <= locked


def locked(name: str) -> dict[str, set[str]]:
    """Return the versions of each distribution that a lock file names, all with a hash."""
    versions: dict[str, set[str]] = {}
    text = (ROOT / name).read_text()
    for distribution, version in re.findall(
        r"^([\w.-]+)==([^ \\\n]+).*\\\n +--hash=sha256:", text, re.MULTILINE
    ):
        versions.setdefault(distribution, set()).add(version)
    assert sum(map(len, versions.values())) == len(re.findall(r"^[\w.-]+==", text, re.MULTILINE))
    return versions


def test_the_image_for_gpus_is_locked_like_the_other() -> None:
    image, gpu = locked("requirements.lock"), locked("requirements-gpu.lock")
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    assert [line.partition(">")[0] for line in groups["gpu-image"]] == ["faiss-gpu"]
    assert gpu["faiss-gpu"] == image["faiss-cpu"], "one version of FAISS"
    both = image.keys() & gpu.keys()
    assert "numpy" in both
    assert {name: gpu[name] for name in both} == {name: image[name] for name in both}
    for arguments in re.findall(r"uv pip install (.*?)(?:&&|;|$)", " ".join(lines(DOCKERFILE, "RUN"))):
        assert "--require-hashes" in arguments or "--offline" in arguments, arguments
    assert read("deploy/compose.gpu.yaml")["x-gpu"]["build"]["args"]["EXTRAS"].endswith(",gpu")


@pytest.mark.parametrize("label", ["title", "description", "licenses", "source", "version", "revision"])
def test_the_image_is_labelled(label: str) -> None:
    assert f"org.opencontainers.image.{label}=" in " ".join(lines(DOCKERFILE, "LABEL"))


def test_compose_serves_a_collection_on_a_read_only_root() -> None:
    compose = read("compose.yaml")
    service = compose["services"]["cbir"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["network_mode"] == "host"
    volumes = dict(volume.split(":")[:2] for volume in service["volumes"])
    assert set(volumes) == {*compose["volumes"], "./images"}
    (folder,) = lines(DOCKERFILE, "VOLUME")
    assert volumes["data"] == folder
    assert json.loads(lines(DOCKERFILE, "CMD")[-1])[-1].startswith(f"{folder}/")


def test_the_service_starts_only_when_it_can() -> None:
    services = read("compose.yaml")["services"]
    assert services["cbir"]["depends_on"]["prepare"]["condition"] == "service_completed_successfully"
    assert services["prepare"]["restart"] == "no"
    script = services["prepare"]["entrypoint"][-1]
    assert script in {f"/opt/cbir/{Path(name).name}" for name in lines(DOCKERFILE, "COPY")[-1].split()}
    assert "AssertPathExists=" in (ROOT / "deploy" / "cbir.service").read_text()


@pytest.mark.parametrize("name", COMPOSE)
def test_compose_names_extras_and_services_that_exist(name: str) -> None:
    known = set(read("compose.yaml")["services"])
    for service, options in read(name)["services"].items():
        assert service in known
        arguments = options.get("build", {}).get("args", {})
        named = arguments.get("EXTRAS", "").removeprefix("${EXTRAS-").removesuffix("}")
        assert set(filter(None, named.split(","))) <= extras()
        for argument in arguments:
            assert f"ARG {argument}=" in DOCKERFILE


def test_orthanc_and_postgresql_beside_the_service() -> None:
    compose = read_compose(*ORTHANC)
    services = compose["services"]
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert service["healthcheck"] if name in ("postgres", "orthanc") else "build" in service, name
        assert name in ("postgres", "orthanc") or service["image"] == "cbir-orthanc"
        for waited in service.get("depends_on", {}):
            assert waited in services
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source in {*compose["volumes"], "./images"} or (ROOT / source).is_file(), source
        addresses = {interpolated(port).rsplit(":", 2)[0] for port in service.get("ports", [])}
        assert addresses <= {"127.0.0.1"}, "for this machine only"
        assert service["network_mode"] in ("host", "none", "service:orthanc") if name != "orthanc" else True
    assert services["cbir"]["network_mode"] == "host"
    assert "CBIR_HOST" not in services["cbir"]["environment"], "loopback, since there is no token"
    (user,) = lines(DOCKERFILE, "USER")
    assert services["orthanc"]["user"] == user, "whose folder it writes to"
    assert services["postgres"]["user"] == "postgres"
    cluster = read("deploy/compose-cluster.yaml")["services"]
    assert services["postgres"]["image"] == cluster["postgres"]["image"]
    assert re.fullmatch(r"[\w./-]+:\d+\.\d+\.\d+", services["orthanc"]["image"])
    assert "--mode=0755 /run/secrets" in DOCKERFILE, "a new volume gets its owner"


def test_only_wheel_and_sdist_go_to_pypi() -> None:
    steps = read(".github/workflows/release.yml")["jobs"]["publish"]["steps"]
    (moved,) = (step["run"] for step in steps if "run" in step)
    assert moved == 'mkdir packages && mv dist/*.whl "dist/cbir-${GITHUB_REF_NAME#v}.tar.gz" packages'
    assert steps[-1]["with"] == {"packages-dir": "packages"}


def test_what_is_released_is_signed() -> None:
    jobs = read(".github/workflows/release.yml")["jobs"]
    for job, subject in (("release", "subject-path"), ("publish-image", "subject-digest")):
        assert jobs[job]["permissions"].items() >= {"attestations": "write", "id-token": "write"}.items()
        (signed,) = (step["with"][subject] for step in jobs[job]["steps"] if subject in step.get("with", {}))
        assert subject == "subject-digest" or signed.split() == ["dist/cbir-*", "dist/SHA256SUMS"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_and_targets_exist(path: Path) -> None:
    text = path.read_text()
    for action in re.findall(r"uses: (\S+)", text):
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([\w-]+)", text)) <= targets
    for script in re.findall(r"bash (\.ci/[\w-]+)", text):
        assert (ROOT / script).is_file(), script
