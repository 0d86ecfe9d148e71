"""This module parses Python text in a way that several threads can use at a time."""

import ast
import time
from threading import RLock
from typing import Any

_one_at_a_time = RLock()
_plain_parse = ast.parse
_TRIES = 10


def parse_expression(text: str) -> ast.expr:
    """Parse one expression as `ast.parse` does, errors included."""
    tree = _parse(text, "eval")
    assert isinstance(tree, ast.Expression)
    return tree.body


def parse_module(text: str) -> ast.Module:
    """Parse a module as `ast.parse` does, errors included."""
    tree = _parse(text, "exec")
    assert isinstance(tree, ast.Module)
    return tree


def _parse(text: str, mode: str) -> ast.AST:
    tree = patient_parse(text, mode=mode)
    assert isinstance(tree, ast.AST)
    return tree


def patient_parse(*args: Any, **kwargs: Any) -> Any:
    """Do as `ast.parse`, in whose place it may stand, and try again where threads collide."""
    # Python 3.11 counts the depth of a tree for all threads together: if two build trees and the
    # garbage collector lets them take turns, one gets a SystemError for nothing. Others may build
    # trees without asking here, so the lock alone is not enough.
    with _one_at_a_time:
        for _ in range(_TRIES - 1):
            try:
                return _plain_parse(*args, **kwargs)
            except SystemError:
                time.sleep(0)  # the other one goes on meanwhile
        return _plain_parse(*args, **kwargs)


def parse_patiently_everywhere() -> None:
    """Put `patient_parse` in the place of `ast.parse`, for a process of one's own with threads."""
    ast.parse = patient_parse
