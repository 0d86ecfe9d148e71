"""The shapes of a program that PyTorch will evaluate as Python."""

import pytest

from quantscope.model.torch.sym_expr import plain_arithmetic


@pytest.mark.parametrize(
    "text",
    [
        "s77",
        "2*s0 + 1",
        "Symbol('s77', positive=True, integer=True)",
        "Mul(Integer(-2), Symbol('s77', integer=True))",
        "Add(Mul(Rational(1, 2), Symbol('s1')), Integer(3))",
        "Pow(Symbol('s7', integer=True), Integer(2))",
        "FloorDiv(s0, 2)",
        "Max(1, s0 // 2)",
        "Eq(s0, 4)",
        "s0 >= 2",
    ],
)
def test_arithmetic_of_shapes_is_let_through(text: str) -> None:
    assert plain_arithmetic(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').mkdir('x')",
        "s0.__class__",
        "().__class__.__bases__[0].__subclasses__()",
        "[c for c in (1,)]",
        "lambda: 0",
        "exit",
        "Symbol('__import__')",
        "Symbol('s0', cls=exit)",
        "Symbol('s0', positive=exit())",
        "eval('1')",
        "Function('f')(s0)",
        "9**9**9",
        "Pow(Integer(9), Integer(8))",
        "Pow(Symbol('s0'), Integer(99999))",
        "Integer('1')",
        "Integer(10**10)",
        "s0 if s1 else s2",
        "(s0 := 3)",
        "f'{s0}'",
        "'s0'",
        "s0, s1",
        "(" * 200 + "s0" + ")" * 200,
        "-" * 500 + "s0",
        "1" * 3000,
        "s0\n",
        "s0 # comment",
        "",
    ],
)
def test_nothing_but_arithmetic_is_let_through(text: str) -> None:
    plain = plain_arithmetic(text)
    assert plain is None or plain == "s0"
