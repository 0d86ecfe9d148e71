"""Python text as a tree, for several threads at a time."""

import ast
import time
from threading import Lock

_one_at_a_time = Lock()
_TRIES = 10


def parse_expression(text: str) -> ast.expr:
    """As `ast.parse`, errors included."""
    tree = _parse(text, "eval")
    assert isinstance(tree, ast.Expression)
    return tree.body


def parse_module(text: str) -> ast.Module:
    """As `ast.parse`, errors included."""
    tree = _parse(text, "exec")
    assert isinstance(tree, ast.Module)
    return tree


def _parse(text: str, mode: str) -> ast.AST:
    # Python 3.11 counts the depth of a tree for all threads together: if two build trees and the
    # garbage collector lets them take turns, one gets a SystemError for nothing. Others parse
    # too (marimo its cells), so the lock alone is not enough.
    with _one_at_a_time:
        for _ in range(_TRIES - 1):
            try:
                return ast.parse(text, mode=mode)
            except SystemError:
                time.sleep(0)  # the other one goes on meanwhile
        return ast.parse(text, mode=mode)
