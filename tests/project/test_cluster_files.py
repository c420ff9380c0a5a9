"""Files of the cluster: what they name exists, they agree with one another, and they hold no secret.

`make lint-delivery` checks them against the schemas of compose files and of Kubernetes. No container has been run.
"""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from cbir import settings
from cbir.settings import Settings
from cbir.system.addresses import validate_collection_address
from cbir.system.command_texts import EXAMPLES
from tests.project.dockerfile import DOCKERFILE, ROOT, lines
from tests.project.test_container import extras

KUBERNETES = ROOT / "deploy" / "kubernetes"
CLUSTER = ROOT / "deploy" / "cluster"
PODS = (("Deployment", "cbir"), ("Deployment", "cbir-worker"), ("Job", "cbir-first-images"))
SETTINGS = {"compose": CLUSTER / "cbir.toml", "kubernetes": KUBERNETES / "cbir.toml"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose-cluster.yaml").read_text())
    return content


@pytest.fixture(scope="module")
def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    """The resources that the kustomization names, by kind and name."""
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
    assert {*listed, "kustomization.yaml"} == {path.name for path in KUBERNETES.glob("*.yaml")}
    found = [part for name in listed for part in yaml.safe_load_all((KUBERNETES / name).read_text())]
    return {(part["kind"], part["metadata"]["name"]): part for part in found}


def load(kind: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("CBIR_CONFIG", str(SETTINGS[kind]))
    return settings.load()


def named_secrets(active: Settings) -> set[str]:
    """Files that the settings read secrets from."""
    names = (
        "state_database_password_file",
        "collection_password_file",
        "audit_key_file",
        "index_password_file",
        "index_ca_file",
    )
    return {str(path) for name in names if (path := getattr(active, name))}


@pytest.mark.parametrize("kind", SETTINGS)
def test_settings_suit_several_services(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    active = load(kind, monkeypatch)
    assert active.host == "0.0.0.0"
    assert active.trusted_proxies
    assert active.allowed_hosts
    assert active.state_database
    assert "schema=cbir_state" in active.state_database, "the collection has a schema of its own"
    assert active.collection_files
    (folder,) = lines(DOCKERFILE, "VOLUME")
    for path in (active.collection_files, active.state_folder):
        assert path.is_relative_to(folder)
    assert active.audit_log in (None, "database")
    assert active.job_workers == 0, "the worker runs the jobs"
    assert [str(folder) for folder in active.index_roots] == ["/images"]


def test_compose_has_the_files_that_the_settings_name(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    active = load("compose", monkeypatch)
    assert named_secrets(active) == {
        f"/run/secrets/{name}" for name in compose["services"]["cbir-1"]["secrets"]
    }
    made = (CLUSTER / "make-secrets.sh").read_text()
    for name, secret in compose["secrets"].items():
        assert secret == {"file": f"./secrets/{name}"}
        assert re.search(rf"^new {name}\b", made, re.MULTILINE)
    assert "/secrets/" in (ROOT / ".gitignore").read_text().split()
    for service in compose["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("./deploy"):
                assert (ROOT / source).is_file(), source
            assert source in {*compose["volumes"], "./images", "./tls"} or source.startswith("./deploy")


def test_compose_services_reach_one_another(compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    active, services = load("compose", monkeypatch), compose["services"]
    assert active.state_database
    assert "@postgres/" in active.state_database
    assert active.index == "milvus://milvus:19530"
    assert set(active.trusted_proxies) == {
        compose["networks"]["front"]["ipam"]["config"][0]["subnet"],
    }
    proxy = (CLUSTER / "nginx.conf").read_text()
    replicas = re.findall(r"server (cbir-\d):(\d+)", proxy)
    assert replicas == [("cbir-1", str(active.port)), ("cbir-2", str(active.port))]
    assert {name for name, _ in replicas} < set(services)
    assert f"server_name {active.allowed_hosts[0]};" in proxy
    (port,) = services["proxy"]["ports"]
    assert port.startswith("${CBIR_LISTEN:-127.0.0.1}:")
    assert f"listen {port.rpartition(':')[2]} ssl;" in proxy
    assert compose["networks"]["back"]["internal"] is True
    for name in ("postgres", "etcd", "minio", "milvus"):
        assert services[name]["networks"] == ["back"], "no way out of the machine"
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]


def test_compose_runs_the_tested_postgresql(compose: dict[str, Any]) -> None:
    tested = re.search(r"the tests use PostgreSQL (\d+)", (ROOT / "docs" / "postgresql.md").read_text())
    assert tested
    postgres = compose["services"]["postgres"]
    assert postgres["image"].endswith(f"-pg{tested[1]}")
    assert "postgres:/var/lib/postgresql" in postgres["volumes"], "where images since 18 have their data"


def test_compose_limits_every_service(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert {"mem_limit", "cpus", "pids_limit"} <= service.keys(), name
        assert service["read_only"] is (name != "milvus"), name
        if name not in ("prepare", "worker", "cbir-1", "cbir-2"):  # the image has the check of these
            assert service["healthcheck"]["test"], name
        for waited in service.get("depends_on", {}):
            assert waited in compose["services"]
        image = service["image"]
        assert image == "cbir-cluster" or re.fullmatch(r"[\w./-]+:[\w.-]*\d[\w.-]*", image), (
            "pinned by a version"
        )
    named = compose["services"]["cbir-1"]["build"]["args"]["EXTRAS"]
    assert {"postgres", "milvus"} < set(named.removeprefix("${EXTRAS-").rstrip("}").split(",")) <= extras()


def commands_of(compose: dict[str, Any], manifests: dict[Any, Any]) -> list[list[str]]:
    """The arguments of cbir in each container."""
    pods = [manifests[pod]["spec"]["template"]["spec"] for pod in PODS]
    return [
        *(compose["services"][name]["command"] for name in ("cbir-1", "cbir-2", "worker")),
        *(pod["containers"][0]["args"] for pod in pods[:2]),
        ["index", *pods[2]["containers"][0]["args"][1:]],
    ]


def test_commands_and_collections_exist(compose: dict[str, Any], manifests: dict[Any, Any]) -> None:
    addresses = []
    for *command, option, address in commands_of(compose, manifests):
        assert any(name.split()[: len(command)] == command for name in EXAMPLES)
        assert option == "--collection"
        assert validate_collection_address(address)
        addresses.append(address)
    assert len(set(addresses[:3])) == len(set(addresses[3:])) == 1, (
        "services and workers share one collection"
    )
    prepared = compose["services"]["prepare"]["environment"]["COLLECTION"]
    assert prepared == addresses[0]


def test_no_file_holds_a_secret() -> None:
    files = [ROOT / "deploy" / "compose-cluster.yaml", *CLUSTER.iterdir(), *KUBERNETES.iterdir()]
    for file in files:
        text = file.read_text()
        assert not re.search(r"://[^/\s@:]+:[^/\s@]+@", text), f"{file.name}: an address with a password"
        assert not re.search(r"[0-9a-fA-F]{32}", text), file.name
        assert "minioadmin" not in text
        for value in re.findall(
            r"(?i)^\s*\w*(?:password|secret_key|token)\w*[ \t]*[:=][ \t]*(\S+)", text, re.MULTILINE
        ):
            assert value.strip("\"'").startswith(("/run/secrets", "$", "[", "false")), f"{file.name}: {value}"


@pytest.mark.parametrize("of", PODS)
def test_kubernetes_mounts_what_the_settings_name(
    manifests: dict[Any, Any], of: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    active = load("kubernetes", monkeypatch)
    pod = manifests[of]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert {volume["name"] for volume in pod["volumes"]} == set(mounts)
    assert {str(Path(path).parent) for path in named_secrets(active)} == {mounts["secrets"]}
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    assert environment["CBIR_CONFIG"] == f"{mounts['settings']}/cbir.toml"
    assert environment["PGSSLMODE"] == "verify-full"
    assert environment["PGSSLROOTCERT"] == str(active.index_ca_file), "one authority for both servers"
    assert mounts.get("images") == (None if of == PODS[0] else active.index_roots[0]), (
        "services read no images"
    )
    assert active.collection_files
    assert active.collection_files.is_relative_to(mounts["files"])
    claims = [
        volume["persistentVolumeClaim"] for volume in pod["volumes"] if "persistentVolumeClaim" in volume
    ]
    assert claims
    assert all(("PersistentVolumeClaim", claim["claimName"]) in manifests for claim in claims)
    generated = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["configMapGenerator"]
    assert generated == [{"name": "cbir-settings", "files": ["cbir.toml"]}]
    (user,) = lines(DOCKERFILE, "USER")
    security = pod["securityContext"]
    assert f"{security['runAsUser']}:{security['runAsGroup']}" == user
    assert security["runAsNonRoot"] is True
    limits = container["securityContext"]
    assert limits["readOnlyRootFilesystem"] is True
    assert limits["allowPrivilegeEscalation"] is False
    assert limits["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"]["memory"]
    assert pod["automountServiceAccountToken"] is False


def test_kubernetes_service_probes_and_policy(
    manifests: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    active = load("kubernetes", monkeypatch)
    deployment = manifests["Deployment", "cbir"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["replicas"] == 2
    assert manifests["PodDisruptionBudget", "cbir"]["spec"]["selector"]["matchLabels"] == labels
    service = manifests["Service", "cbir"]["spec"]
    assert service["selector"] == labels
    (container,) = deployment["template"]["spec"]["containers"]
    assert container["ports"] == [{"name": service["ports"][0]["targetPort"], "containerPort": active.port}]
    copied = [f"/opt/cbir/{Path(name).name}" for name in lines(DOCKERFILE, "COPY")[-1].split()]
    for probe, path in (("startupProbe", []), ("readinessProbe", []), ("livenessProbe", ["/livez"])):
        program, script, *rest = container[probe]["exec"]["command"]
        assert (program, rest) == ("python", path)
        assert script in copied
    policy = manifests["NetworkPolicy", "cbir"]["spec"]
    chosen = policy["podSelector"]["matchLabels"].items()
    for pod in PODS:
        assert chosen <= manifests[pod]["spec"]["template"]["metadata"]["labels"].items()
    assert [port["port"] for rule in policy["ingress"] for port in rule["ports"]] == [active.port]
    open_ports = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    assert open_ports == {5432, urlsplit(active.index).port, 53}


def test_variables_are_settings() -> None:
    deploy = [file for file in (ROOT / "deploy").rglob("*") if file.is_file()]
    known = {f"{settings.PREFIX}{name.upper()}" for name in Settings.model_fields}
    named = {
        variable: file.name
        for file in (ROOT / "compose.yaml", ROOT / "Dockerfile", *deploy)
        for variable in re.findall(r"\bCBIR_[A-Z0-9_]+", file.read_text())
    }
    assert "CBIR_TLS_KEY" in named
    of_commands = {"CBIR_CONFIG", "CBIR_COLLECTION", "CBIR_DICOMWEB_USER", "CBIR_DICOMWEB_PASSWORD"}
    assert named.keys() - known == {*of_commands, "CBIR_LISTEN"}, "read by commands, and by compose"
