"""Lines for people go through `console.echo`; what other programs read is printed as it is, and named here."""

import ast
from typing import TypeGuard

from tests.project.sources import sources

AS_IT_IS = {
    "service/features/annotate/commands.py": "csv and JSON",
    "service/features/similar/command.py": "JSON",
    "cbir/learn/commands/grade_commands.py": "JSON",
    "cbir/system/console.py": "JSON, and `echo` itself",
    "cbir/api/commands/search_images.py": "JSON, a TREC run and HTML",
    "cbir/learn/commands/train_models.py": "JSON",
    "indexer/index_command.py": "JSON",
    "indexer/receive/receive_command.py": "JSON",
    "service/access/audit_commands.py": "lines of the audit log, whose hashes are checked",
    "service/features/federation/commands.py": "JSON",
    "service/access/token_commands.py": "JSON",
}
CONSOLES = {  # results, and progress without markup
    "cbir/system/console.py",
    "indexer/index_progress.py",
}


def test_lines_for_people_do_not_control_the_terminal() -> None:
    paths = {
        source.path
        for source in sources()
        for node in source.nodes
        if is_call(node, "echo") and ast.unparse(node.func) == "typer.echo"
    }
    assert paths == AS_IT_IS.keys()


def test_no_command_makes_a_console_of_its_own() -> None:
    """Rich reads markup in text unless its console is told otherwise: `results_console` is."""
    made = [
        f"{path}:{node.lineno}"
        for path, tree, nodes in sources()
        if path not in CONSOLES
        for node in nodes
        if (is_call(node, "Console") or imports_rich(node)) and not is_for_types(tree, node)
    ]
    assert made == []
    for path, _, nodes in sources():
        for node in nodes:
            if is_call(node, "TextColumn") and "rate" not in ast.unparse(node):
                assert "markup=False" in ast.unparse(node), path


def is_call(node: ast.AST, name: str) -> TypeGuard[ast.Call]:
    """Return whether a node is a call of `name` or `a.name`."""
    return isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == name


def imports_rich(node: ast.AST) -> TypeGuard[ast.ImportFrom]:
    """Return whether a node imports what prints with markup."""
    modules = ("rich", "rich.markup", "rich.console", "rich.text")
    return isinstance(node, ast.ImportFrom) and node.module in modules


def is_for_types(tree: ast.Module, node: ast.AST) -> bool:
    """Return whether a node is read by type checkers alone."""
    blocks = [
        each for each in tree.body if isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING"
    ]
    return any(node in set(ast.walk(block)) for block in blocks)
