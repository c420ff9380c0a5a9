"""Text files are read and written in an encoding that the code names: the system's own differs on Windows."""

import ast

from tests.project.sources import sources

TEXT_METHODS = {"read_text": 0, "write_text": 1}  # position of the encoding


def opens_text(call: ast.Call) -> bool:
    """Return whether a call of `open` is for text: its mode, if it has one, is without a b."""
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    words = [
        word.value for word in arguments if isinstance(word, ast.Constant) and isinstance(word.value, str)
    ]
    modes = [word for word in words if word and not set(word) - set("rwaxbt+")]
    return bool(modes) and not any("b" in mode for mode in modes)


def names_no_encoding(call: ast.Call) -> bool:
    """Return whether a call reads or writes text without naming the encoding."""
    named = any(keyword.arg == "encoding" for keyword in call.keywords)
    match call.func:
        case ast.Attribute(attr="read_text" | "write_text" as method):
            return not named and len(call.args) <= TEXT_METHODS[method]
        case ast.Name(id="open") | ast.Attribute(attr="open"):
            return not named and opens_text(call)
    return False


def test_the_check_sees_what_it_should() -> None:
    texts = ["p.read_text()", "p.write_text(x)", "open(p, 'w')", "p.open('a')"]
    others = [
        "p.read_text(encoding='utf-8')",
        "p.read_text('utf-8')",
        "open(p, 'rb')",
        "p.open('ab')",
        "db.open(p)",
    ]
    assert [names_no_encoding(ast.parse(text, mode="eval").body) for text in texts + others] == (
        [True] * len(texts) + [False] * len(others)
    )


def test_text_has_a_named_encoding() -> None:
    calls = [
        f"{path}:{node.lineno}"
        for path, _, nodes in sources()
        for node in nodes
        if isinstance(node, ast.Call) and names_no_encoding(node)
    ]
    assert not calls, "\n".join(calls)
