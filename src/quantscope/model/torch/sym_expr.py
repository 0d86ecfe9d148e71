"""This module checks the arithmetic of dynamic shapes, which torch evaluates as Python.

It is `s77`, or `Mul(Integer(2), Symbol('s77', integer=True))`; only plain ones may reach torch.
"""

import ast
import re
from collections.abc import Sequence

from quantscope.model.syntax import parse_expression

_SYMBOL = re.compile(r"(s|u|zf|zuf|ps)\d{1,6}")
# sympy's and torch.utils._sympy's own that shapes are written with.
_FUNCTIONS = frozenset(
    {
        "Add", "And", "CeilDiv", "CeilToInt", "CleanDiv", "Eq", "Equality", "FloorDiv",
        "FloorToInt", "Ge", "GreaterThan", "Gt", "Identity", "IntTrueDiv", "Le", "LessThan",
        "Lt", "Max", "Min", "Mod", "ModularIndexing", "Mul", "Ne", "Not", "Or", "PythonMod",
        "RoundToInt", "StrictGreaterThan", "StrictLessThan", "ToFloat", "TruncToInt",
        "Unequality", "Where", "ceiling", "floor",
    }
)  # fmt: skip
_NUMBERS = frozenset({"Integer", "Rational"})
_LONGEST = 2000
_DEEPEST = 30
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_ASSUMPTIONS = frozenset({"integer", "nonnegative", "positive", "real"})


def is_symbol(name: str) -> bool:
    return _SYMBOL.fullmatch(name) is not None


def plain_arithmetic(text: str) -> str | None:
    """Write an expression anew; None if it is more than arithmetic on numbers and symbols."""
    if len(text) > _LONGEST:
        return None
    try:
        tree = parse_expression(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return ast.unparse(tree) if _is_plain(tree, _DEEPEST) else None


def _is_plain(node: ast.expr, depth: int) -> bool:
    """Tell whether an expression is plain arithmetic, nested no more than `depth` deep."""
    parts: Sequence[ast.expr] = ()
    match node:
        case ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
            known = _is_number(node)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            known, parts = True, [operand]
        case ast.BinOp(left=base, op=ast.Pow(), right=power):
            known = _is_small_power(base, power)
        case ast.BinOp(left=left, op=op, right=right):
            known, parts = isinstance(op, _OPERATORS), [left, right]
        case ast.Compare(left=left, ops=ops, comparators=others):
            known, parts = all(isinstance(op, _COMPARISONS) for op in ops), [left, *others]
        case ast.Call(func=ast.Name(id=name), args=numbers, keywords=[]) if name in _NUMBERS:
            known = all(_is_number(number) for number in numbers)
        case ast.Call(func=ast.Name(id="Pow"), args=[base, power], keywords=[]):
            known = _is_small_power(base, power)
        case ast.Call(func=ast.Name(id=name), args=given, keywords=[]) if name in _FUNCTIONS:
            known, parts = True, given
        case _:
            known = _is_symbol_node(node)
    return known and depth > 0 and all(_is_plain(part, depth - 1) for part in parts)


def _is_symbol_node(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name):
            return is_symbol(name)
        case ast.Call(
            func=ast.Name(id="Symbol"), args=[ast.Constant(value=str() as name)], keywords=given
        ):
            return is_symbol(name) and all(
                known.arg in _ASSUMPTIONS
                and isinstance(known.value, ast.Constant)
                and isinstance(known.value.value, bool)
                for known in given
            )
    return False


def _is_number(node: ast.expr) -> bool:
    """Tell whether an expression is one number, with or without a sign, of 64 bits."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        node = node.operand
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, int | float) and abs(value) < 2**63


def _is_small_power(base: ast.expr, power: ast.expr) -> bool:
    # A number raised to a number would be computed, and could be astronomically large.
    match power:
        case ast.Constant(value=int() as exponent):
            pass
        case ast.Call(
            func=ast.Name(id="Integer"), args=[ast.Constant(value=int() as exponent)], keywords=[]
        ):
            pass
        case _:
            return False
    return 0 <= exponent <= 8 and _is_symbol_node(base)
