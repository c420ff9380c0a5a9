"""Names and docstrings of the product, measured.

docs/development.md explains the rules under "Language". A failure lists the places to change.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from tests.project.sources import Definition, Source, sources

# Words that say nothing about what a name holds.
EMPTY_NAME = re.compile(
    r"_*(found|wanted|told|tells|said|says|asked|asks|here|kept|keeps|places?|ones?|given|there|known|held|shown|named"
    r"|made|standing|gone|chosen|drawn|taken|learnt|apart|own|whole|nobody|somebody|anew)_*",
    re.IGNORECASE,
)
ARCHAIC = re.compile(
    r"\b(told|anew|mends?|mended|nobody|somebody|whoever|whatever|wherever|thereby|learnt|amiss|in vain|asked for"
    r"|of one's own)\b",
    re.IGNORECASE,
)
NOT_A_SUMMARY = re.compile(r"^(What|How|Whether|Where|Who|When|Which|Of|In|That)\b")
SECTIONS = re.compile(r"^(Parameters|Returns|Raises|Yields)\n *-{4,}", re.MULTILINE)
# Files of a feature, whose folder says of which.
PARTS = {
    "search_hook",
    "access",
    "client",
    "command",
    "commands",
    "erase",
    "feature",
    "functions",
    "job",
    "job_kind",
    "messages",
    "page",
    "routes",
    "tables",
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def bound_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield each name that nodes bind, with its line."""
    for node in nodes:
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield the place and text of each docstring."""
    for path, _, nodes in sources():
        for node in nodes:
            if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)):
                text = ast.get_docstring(node)
                if text:
                    yield f"{path}:{getattr(node, 'lineno', 1)}", text


def public_definitions(kind: type[Definition]) -> Iterator[tuple[str, str]]:
    """Yield the name and file of each public definition at the top level of a module."""
    for path, tree, _ in sources():
        for node in tree.body:
            if isinstance(node, kind) and not node.name.startswith("_"):
                yield node.name, path


def several_files(names: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Return the names that occur in more than one file, with their files."""
    files = defaultdict(set)
    for name, path in names:
        files[name].add(path)
    return {name: paths for name, paths in files.items() if len(paths) > 1}


def functions_of_many_parameters() -> Iterator[tuple[Source, ast.FunctionDef, list[str]]]:
    """Yield public functions of three or more parameters, `self` and `cls` apart."""
    for source in sources():
        for node in source.nodes:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                arguments = [*node.args.args, *node.args.kwonlyargs]
                names = [argument.arg for argument in arguments if argument.arg not in ("self", "cls")]
                if len(names) >= 3:
                    yield source, node, names


def test_names_say_what_they_hold() -> None:
    total, empty = 0, []
    for path, _, nodes in sources():
        for name, line in bound_names(nodes):
            total += 1
            if EMPTY_NAME.fullmatch(name):
                empty.append(f"{path}:{line}: {name}")
    assert len(empty) <= 0.005 * total, "\n".join(empty)


def test_a_class_name_is_defined_in_one_file() -> None:
    assert len(several_files(public_definitions(ast.ClassDef))) <= 2, several_files(
        public_definitions(ast.ClassDef)
    )


def test_a_file_name_is_used_once() -> None:
    stems = (
        (PurePath(path).stem, path)
        for path, _, _ in sources()
        if not (path.startswith("service/features/") and PurePath(path).stem in PARTS)
    )
    repeated = several_files((stem, path) for stem, path in stems if not stem.startswith("__"))
    assert len(repeated) <= 8, repeated


def test_a_public_function_name_is_defined_in_one_file() -> None:
    assert len(several_files(public_definitions(ast.FunctionDef))) <= 15, several_files(
        public_definitions(ast.FunctionDef)
    )


def test_docstrings_start_with_a_summary() -> None:
    starts = [f"{place}: {text.splitlines()[0]}" for place, text in docstrings() if NOT_A_SUMMARY.match(text)]
    assert len(starts) <= 5, "\n".join(starts)


def test_docstrings_are_in_plain_words() -> None:
    archaic = [f"{place}: {word}" for place, text in docstrings() for word in ARCHAIC.findall(text)]
    assert len(archaic) <= 5, "\n".join(archaic)


def test_parameters_are_documented() -> None:
    total, unnamed, without_sections = 0, [], []
    for source, node, names in functions_of_many_parameters():
        total += 1
        text = ast.get_docstring(node) or ""
        missing = [name for name in names if not re.search(rf"\b{re.escape(name)}\b", text)]
        if missing:
            unnamed.append(f"{source.path}:{node.lineno}: {node.name}: {', '.join(missing)}")
        if not SECTIONS.search(text):
            without_sections.append(f"{source.path}:{node.lineno}: {node.name}")
    assert len(unnamed) <= 0.15 * total, "\n".join(unnamed)
    assert len(without_sections) <= 0.30 * total, "\n".join(without_sections)
