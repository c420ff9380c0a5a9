"""Lines for people go through `console.echo`; what other programs read is printed as it is, and named here."""

import ast

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


def test_lines_for_people_do_not_control_the_terminal() -> None:
    paths = {
        source.path
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "typer.echo"
    }
    assert paths == AS_IT_IS.keys()
