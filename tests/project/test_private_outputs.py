"""Files and folders that are written for people are their owner's, unless this file says that they are public.

`cbir.system.files` writes them so by default. What opens, copies or creates otherwise is named here with a reason.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.project.sources import sources

PUBLIC = {
    "cbir/evaluation/datasets/irma/phantom_release.py": "drawn images",
    "cbir/evaluation/datasets/phantoms/phantom_files.py": "drawn images",
    "cbir/descriptors/encoders/encoder_files.py": "published networks, which services of other users read too",
    "cbir/store/collection_address.py": "the name of a folder, which the service of another user follows",
}
ELSEWHERE = {
    "service/features/annotate/study_training.py": "an empty lock file, in a study's folder",
    "cbir/api/commands/search_output.py": "a descriptor of mkstemp, which is its owner's",
    "cbir/evaluation/datasets/phantoms/phantom_files.py": "drawn images",
    "cbir/descriptors/encoders/encoder_files.py": "published networks, which services of other users read too",
    "cbir/descriptors/encoders/hub/torchvision_network.py": "torch hub's own folder, of published networks",
    "cbir/system/device.py": "an empty lock file, in a collection's folder",
    "cbir/ingest/process_pool.py": "the null device",
    "cbir/ingest/process_memory.py": "a file in memory",
    "cbir/store/writing/creation.py": "a collection's folder, which is restricted at once",
    "cbir/store/upkeep/collection_copy.py": "a folder of its owner, which is restricted as a whole",
    "cbir/store/safety/last_good.py": "files of a collection, which keep their rights",
    "cbir/store/upkeep/backup.py": "files of a collection, which keep their rights",
    "cbir/store/upkeep/restore.py": "files of a collection, which keep their rights",
    "cbir/store/base/stored_models.py": "files of a collection, which keep their rights",
    "indexer/ray_cluster/node_worker.py": "a temporary folder, which is its owner's",
    "indexer/ray_cluster/ray_connection.py": "the null device",
    "service/jobs/job_work.py": "a random number, in a collection's folder",
    "service/languages/update_catalogues.py": "sources, in a checkout",
    "service/write_bundles.py": "scripts of a page, in a temporary folder",
    "service/write_docs.py": "sources, in a checkout",
}
OPENERS = {"open_private", "_open_or_create", "_open_nonblocking"}
COPIES = {"copy", "copy2", "copyfile", "copytree", "move"}
PRIVATE_MODES = {"OWNER_FILE", "OWNER_FOLDER", "file_mode", "folder_mode"}


def name_of(node: ast.expr | None) -> str:
    """The last name of `a.b.name`, `name` or `name(...)`."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Call(func=function):
            return name_of(function)
    return ""


def keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def opening_mode(call: ast.Call, at: int) -> str:
    mode = keywords(call).get("mode") or (call.args[at] if len(call.args) > at else None)
    return mode.value if isinstance(mode, ast.Constant) and isinstance(mode.value, str) else ""


def is_open_to_others(call: ast.Call) -> bool:
    """Return whether a call creates a file or folder with the rights of the umask, or of another file."""
    match call.func:
        case ast.Attribute(attr="mkdir"):
            mode = keywords(call).get("mode") or (call.args[0] if call.args else None)
            return name_of(mode) not in PRIVATE_MODES
        case ast.Attribute(attr="makedirs" | "touch"):
            return True
        case ast.Attribute(attr="write_text" | "write_bytes"):
            return True
        case ast.Attribute(value=ast.Name(id="shutil"), attr=attribute):
            return attribute in COPIES
        case ast.Attribute(value=ast.Name(id="os"), attr="open"):
            creates = "O_CREAT" in ast.unparse(call)
            return creates and name_of(call.args[2] if len(call.args) > 2 else None) not in {
                *PRIVATE_MODES,
                "mode",
            }
        case ast.Name(id="make_folder" | "create_file" | "open_or_create" as name):
            at = 1 if name == "make_folder" else 2
            return len(call.args) > at and name_of(call.args[at]) not in {*PRIVATE_MODES, "mode"}
        case ast.Name(id="open"):
            writes = bool(set(opening_mode(call, 1)) & set("wax"))
            opened = name_of(call.args[0]) if call.args else ""
            return (
                writes
                and opened not in {"open", "create_file", "open_or_create"}
                and name_of(keywords(call).get("opener")) not in OPENERS
            )
        case ast.Attribute(attr="open"):
            return bool(set(opening_mode(call, 0)) & set("wax")) and not opening_mode(call, 1)
    return False


def is_public(call: ast.Call) -> bool:
    """Return whether a call of a writer in `cbir.system.files` names other rights than its owner's or a folder's."""
    if name_of(call.func) not in {"atomic_binary", "atomic_text", "write_bytes"}:
        return False
    permissions = keywords(call).get("permissions")
    return permissions is not None and name_of(permissions) not in {*PRIVATE_MODES, "permissions"}


def calls() -> Iterator[tuple[str, ast.Call]]:
    for path, _, nodes in sources():
        if path not in {"cbir/system/files.py", "cbir/system/ownership.py"}:
            yield from ((path, node) for node in nodes if isinstance(node, ast.Call))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("folder.mkdir(parents=True, exist_ok=True)", True),
        ("folder.mkdir(mode=0o755)", True),
        ("folder.mkdir(mode=OWNER_FOLDER)", False),
        ("folder.mkdir(folder_mode(folder.parent))", False),
        ("path.write_text(text, encoding='utf-8')", True),
        ("path.write_bytes(data)", True),
        ("make_folder(folder, 0o777)", True),
        ("make_folder(folder, exist_ok=True)", False),
        ("make_folder(folder, folder_mode(folder.parent))", False),
        ("create_file(path, os.O_WRONLY, 0o666)", True),
        ("open_or_create(path, os.O_WRONLY)", False),
        ("write_bytes(path, data)", False),
        ("open(path, 'w')", True),
        ("open(path, mode='xb')", True),
        ("open(path, 'rb')", False),
        ("open(path, 'w', opener=open_private)", False),
        ("path.open('a', encoding='utf-8')", True),
        ("path.open(newline='')", False),
        ("shutil.copy2(source, target)", True),
        ("os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)", True),
        ("os.open(path, os.O_WRONLY | os.O_CREAT, OWNER_FILE)", False),
        ("os.open(path, os.O_RDONLY)", False),
    ],
)
def test_the_check_sees_what_it_should(text: str, expected: bool) -> None:
    (statement,) = ast.parse(text).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert is_open_to_others(statement.value) is expected


def test_what_is_written_is_its_owners() -> None:
    """A new writer uses `cbir.system.files`, or gets a line in ELSEWHERE that says why its file may not."""
    found = {
        path: f"{path}:{call.lineno}: {ast.unparse(call)}"
        for path, call in calls()
        if is_open_to_others(call)
    }
    assert not [line for path, line in found.items() if path not in ELSEWHERE]
    assert set(ELSEWHERE) <= set(found), "a line of ELSEWHERE is no longer needed"


def test_what_is_public_is_named() -> None:
    found = {path: f"{path}:{call.lineno}: {ast.unparse(call)}" for path, call in calls() if is_public(call)}
    assert not [line for path, line in found.items() if path not in PUBLIC]
    assert set(PUBLIC) <= set(found), "a line of PUBLIC is no longer needed"
