"""Python text that is parsed in several threads at a time."""

import ast
import gc
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from quantscope.model.syntax import parse_expression, parse_module, parse_patiently_everywhere

SHAPE = "Mul(Integer(2), Symbol('s77', integer=True))"


@pytest.fixture
def threads_take_turns() -> Iterator[None]:
    """At every few objects made, wherever that is: what is rare becomes certain."""

    def give_way(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)

    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    gc.callbacks.append(give_way)
    sys.setswitchinterval(1e-6)
    gc.set_threshold(5, 1, 1)
    yield
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval)
    gc.callbacks.remove(give_way)


@pytest.mark.usefixtures("threads_take_turns")
def test_threads_parse_side_by_side() -> None:
    """Plain `ast.parse` fails here about twice in a thousand times in Python 3.11."""

    def parse(index: int) -> str:
        tree = parse_expression(SHAPE) if index % 2 else parse_module(SHAPE)
        return ast.unparse(tree)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(parse, range(4000))) == {SHAPE}


@pytest.mark.usefixtures("threads_take_turns")
def test_who_parses_on_his_own_is_no_hindrance() -> None:
    def parse(index: int) -> None:
        if index % 2:
            parse_expression(SHAPE)
        else:
            with suppress(SystemError):
                ast.parse(SHAPE, mode="eval")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(parse, range(4000)))


def test_wrong_text_is_a_syntax_error() -> None:
    with pytest.raises(SyntaxError):
        parse_expression("2 +")


@pytest.mark.usefixtures("threads_take_turns")
def test_everybody_s_parsing_waits_its_turn_where_it_is_asked_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ast, "parse", ast.parse)  # put back afterwards
    parse_patiently_everywhere()

    def parse(_: int) -> str:
        return ast.unparse(ast.parse(SHAPE, filename="cell.py"))

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(parse, range(2000))) == {SHAPE}
    with pytest.raises(SyntaxError):
        ast.parse("1 +")
