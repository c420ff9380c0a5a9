"""No regular expression of the product takes more than linear time on hostile input."""

import ast
import re
import time
from collections.abc import Callable, Iterator
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import pytest

from tests.project.sources import ROOT, files

CALL = re.compile(r"\bre\.(?:compile|match|fullmatch|search|split|sub|findall|finditer)\(")
METHODS = {"match", "fullmatch", "search", "split", "sub", "findall", "finditer"}
# These find all matches, by the same steps; a search takes the first of them.
FIND_ALL = {"split", "sub", "findall", "finditer"}
UNKNOWN = {"match", "fullmatch", "findall"}  # the ways of matching, if the methods used are not known
SIZES = (20, 250, 1000, 16000)
SECONDS_PER_CHARACTER = 0.5e-6  # a linear expression takes some 20 ns
FIXED_SECONDS = 0.002  # for the noise of other processes
REPEATS = 5
SLOWEST = 20  # texts that are tried at the largest size
LARGEST_GROWTH = 8  # of the time, for four times the length


class Expression(NamedTuple):
    """A regular expression in the sources, and a method it is used with."""

    place: str
    pattern: str | bytes
    flags: int
    method: str


def _text(node: ast.expr) -> str | bytes:
    """Return a pattern; values in an f-string count as digits."""
    if isinstance(node, ast.Constant):
        return node.value  # type: ignore[return-value]
    assert isinstance(node, ast.JoinedStr), f"not a literal pattern: {ast.unparse(node)}"
    return "".join(part.value if isinstance(part, ast.Constant) else "05" for part in node.values)  # type: ignore[misc]


def _methods_of(tree: ast.Module, target: str) -> set[str]:
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == target
    } & METHODS


def expressions() -> Iterator[Expression]:
    """Yield all calls of `re` in the product; those of compiled expressions with each method used in the file."""
    for path in files():
        text = path.read_text()
        if not CALL.search(text):  # parsing every file takes seconds
            continue
        tree = ast.parse(text)
        compiled = {
            node.value: node.targets[0].id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.")):
                continue
            method = ast.unparse(node.func).removeprefix("re.")
            if method not in METHODS | {"compile"}:
                continue
            flags = eval(
                " | ".join(word for word in map(ast.unparse, node.args[1:]) if word.startswith("re.")) or "0"
            )
            methods = (
                _methods_of(tree, compiled.get(node, "")) or UNKNOWN if method == "compile" else {method}
            )
            for name in sorted({"findall" if name in FIND_ALL else name for name in methods}):
                yield Expression(
                    f"{path.relative_to(ROOT)}:{node.lineno}", _text(node.args[0]), int(flags), name
                )


EXPRESSIONS = list(expressions())


def _example(parsed: Any) -> str:
    """Return a text that roughly matches a parsed expression."""
    text = ""
    for operation, argument in parsed:
        name = str(operation)
        if name == "LITERAL":
            text += chr(argument)
        elif name == "NOT_LITERAL":
            text += "~" if argument != ord("~") else "a"
        elif name == "ANY":
            text += "a"
        elif name == "IN":
            text += _member(argument)
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            text += _example(argument[2]) * max(1, argument[0])
        elif name == "SUBPATTERN":
            text += _example(argument[-1])
        elif name == "BRANCH":
            text += _example(argument[1][0])
    return text


def _member(members: Any) -> str:
    """Return a character of a set."""
    name, argument = str(members[0][0]), members[0][1]
    if name == "LITERAL":
        return chr(argument)
    if name == "RANGE":
        return chr(argument[0])
    if name == "CATEGORY":
        return {"CATEGORY_DIGIT": "0", "CATEGORY_SPACE": " "}.get(str(argument), "a")
    excluded = {chr(value) for kind, value in members[1:] if str(kind) == "LITERAL"}
    return next(character for character in "a0 ~" if character not in excluded)


def hostile_texts(pattern: str | bytes) -> list[Callable[[int], str]]:
    """Return functions of the length that repeat a character, or the beginning of a match, between others."""
    source = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    example = _example(_parser.parse(source))
    characters = sorted({*example, *re.sub(r"\w", "", source), " ", "\t", "a", "0", "A"})
    beginnings = ["", *sorted({example[:length] for length in range(1, min(len(example), 12) + 1)}), example]
    units = [*characters, example, *(beginning for beginning in beginnings if len(beginning) > 1)]
    ends = ["", "\x00", "\n\x00", *re.sub(r"[\w\s]", "", "".join(set(source)))]
    return [
        lambda length, start=start, unit=unit, end=end: start + unit * (length // max(1, len(unit))) + end
        for start in {*beginnings, *characters}
        for unit in units
        if unit
        for end in ends
    ]


def seconds(expression: Expression, text: str, repeats: int = 1) -> float:
    """Return the least time of several uses, of `repeats` at least, and of more if it seems long."""
    compiled = re.compile(expression.pattern, expression.flags)
    subject = text.encode("latin-1", "replace") if isinstance(expression.pattern, bytes) else text
    use = getattr(compiled, expression.method)
    least = float("inf")
    for turn in range(REPEATS):
        started = time.perf_counter()
        use(subject)
        least = min(least, time.perf_counter() - started)
        if turn + 1 >= repeats and least < _most(len(text)):
            break
    return least


def _most(length: int) -> float:
    return FIXED_SECONDS + SECONDS_PER_CHARACTER * length


def slow_text(expression: Expression) -> str | None:
    """Return a description of the first text that takes too long, from short texts to long.

    Four times the length may take four times as long, but not sixteen.
    """
    texts = hostile_texts(expression.pattern)
    for size in SIZES:
        times = []
        for make in texts:
            text = make(size)
            times.append(seconds(expression, text))
            if times[-1] <= _most(len(text)):
                continue
            if times[-1] > LARGEST_GROWTH * seconds(expression, make(size // 4), REPEATS):
                return f"{expression}: {times[-1]:.3f} s for {len(text)} characters {text[:10]!r}...{text[-5:]!r}"
        if size >= SIZES[-2]:
            slowest = sorted(range(len(texts)), key=times.__getitem__)[-SLOWEST:]
            texts = [texts[number] for number in slowest]
    return None


def test_all_expressions_are_found() -> None:
    in_files = sum(len(CALL.findall(path.read_text())) for path in files())
    assert len({(place, pattern) for place, pattern, _, _ in EXPRESSIONS}) == in_files
    assert in_files > 30


@pytest.mark.slow
@pytest.mark.parametrize(
    "expression", EXPRESSIONS, ids=[f"{each.place} {each.method}" for each in EXPRESSIONS]
)
def test_time_grows_linearly(expression: Expression) -> None:
    assert slow_text(expression) is None


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"\s*([^=!<>]+?)\s*(!=|>=|<=|=|>|<)\s*(.*?)\s*", "fullmatch"),
        (r"\*+\s*([a-z ]+?)\s*\*+", "fullmatch"),
        (r"[\s,]+(?![^()]*\))", "split"),
        (r"<title[^>]*>([^<]{1,60})", "search"),
        (r"([a-z]+):\s*([ -~]*)", "fullmatch"),
        (r"(a+)+b", "match"),
    ],
)
def test_a_slow_expression_would_be_noticed(pattern: str, method: str) -> None:
    assert slow_text(Expression("here", pattern, 0, method)) is not None
