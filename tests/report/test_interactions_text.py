"""What layers cost together, in words and tables."""

from dataclasses import replace
from typing import Any

import pytest

from quantscope.report import interactions_lines, shapley_lines
from quantscope.report.figures import pair_matrix, shapley_shares
from quantscope.report.interactions_text import matrix_tables, pairs_table, shapley_table
from quantscope.run import Estimate
from quantscope.study.interactions import Alone, Interactions, Pair, Shapley, ShapleyShare

FACTS: dict[str, Any] = {
    "model": "small.onnx",
    "digest": "0" * 64,
    "float_model": "float.onnx",
    "float_digest": "1" * 64,
    "execution": "reference",
    "data": "made up",
    "data_digest": "2" * 64,
    "images": 50,
    "sample_word": "sample",
    "measure": "top-1 accuracy",
    "unit": "share",
    "higher_is_better": True,
    "by_score": False,
    "not_switched": (),
    "notes": (),
    "provenance": {},
}
WHOLE = {"loss": Estimate(0.04, (0.01, 0.07), 0.01), "noise": Estimate(0.002, (0.001, 0.003), 0.0)}


def estimate(value: float) -> Estimate:
    return Estimate(value, (value - 0.0001, value + 0.0001), 0.5)


def pairs(kinds: tuple[Any, Any, Any] = ("aggravate", "compensate", None)) -> Interactions:
    noises = (0.0005, -0.001, 0.00001)
    names = (("a", "b"), ("a", "c"), ("b", "c"))
    return Interactions(
        **FACTS,
        **WHOLE,
        mode="enable",
        alone=tuple(Alone(name, "Conv", estimate(0.0), estimate(0.001)) for name in "abc"),
        pairs=tuple(
            Pair(first, second, estimate(0.02), estimate(noise), 0.01 if kind else 0.8, kind)
            for (first, second), noise, kind in zip(names, noises, kinds, strict=True)
        ),
    )


def shares() -> Shapley:
    return Shapley(
        **FACTS,
        **WHOLE,
        orders=5,
        is_exact=False,
        seed=3,
        variants=8,
        shares=(
            ShapleyShare("a", "Conv", estimate(0.01), 0.001, estimate(0.0005), 0.0001, 2),
            ShapleyShare("b", "Gemm", estimate(0.03), 0.002, estimate(0.0015), None, 1),
        ),
    )


def test_pairs_are_named_in_words_with_their_share_of_the_noise() -> None:
    lines = list(interactions_lines(pairs()))
    assert "quantizing all of it: 4 points of accuracy lost, noise of 0.2 % of the signal" in lines
    assert (
        "  a and b aggravate each other: +25.0 [+20.0, +30.0] % of the noise of all (together they "
        "cost more than apart)"
    ) in lines
    assert any("a and c compensate each other: -50.0" in line for line in lines)
    assert not any(line.startswith("  b and c") for line in lines)


def test_where_no_pair_stands_out_that_is_said() -> None:
    text = "\n".join(interactions_lines(pairs((None, None, None))))
    assert "no pair of 3 stands out: on these samples chance could be all of it" in text
    assert "each other" not in text


def test_the_matrix_has_pairs_below_and_costs_alone_on_its_diagonal() -> None:
    (table,) = matrix_tables(pairs())
    assert table.rows == (
        ("1", "a", "(+50.0)", "", ""),
        ("2", "b", "+25.0*", "(+50.0)", ""),
        ("3", "c", "-50.0*", "+0.50", "(+50.0)"),
    )


def test_the_largest_pairs_have_their_intervals() -> None:
    table = pairs_table(pairs())
    assert table.rows[0] == ("a", "c", "-50.0*", "-55.0 to -45.0", "0.01")
    assert [row[2] for row in table.rows] == ["-50.0*", "+25.0*", "+0.50"]


def test_a_narrow_terminal_gets_the_matrix_in_parts_without_losing_a_number() -> None:
    parts = list(matrix_tables(pairs(), 28))
    assert len(parts) > 1
    whole = {cell for row in next(matrix_tables(pairs())).rows for cell in row[2:] if cell}
    assert {cell for part in parts for row in part.rows for cell in row[2:] if cell} == whole


def test_where_the_measure_ranks_the_matrix_is_in_points() -> None:
    found = replace(pairs(), by_score=True)
    assert "a and b aggravate each other: +2.0 [+2.0, +2.0] points" in "\n".join(
        interactions_lines(found)
    )


def test_shares_are_ranked_and_their_sum_is_the_whole() -> None:
    table = shapley_table(shares())
    assert table.column("layer") == ("b", "a", "all of it")
    assert table.column("noise") == ("+75.0", "+25.0", "+100.0")
    assert table.column("accuracy") == ("+3", "+1", "+4")
    assert table.rows[0][4] == "–" and table.rows[1][4] == "±5.0"
    text = "\n".join(shapley_lines(shares()))
    assert "over 5 orders drawn with seed 3" in text
    assert "over all 2 orders" in "\n".join(
        shapley_lines(replace(shares(), orders=2, is_exact=True))
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_figures_show_the_numbers(theme: Any) -> None:
    drawn = [text.get_text() for text in pair_matrix(pairs(), theme=theme).axes[0].texts]
    assert drawn == ["+25", "−50", "+0.5"]
    bars = shapley_shares(shares(), theme=theme).axes[0].patches
    assert [round(bar.get_width(), 6) for bar in bars] == [75, 25]


def test_figures_of_nothing_say_so() -> None:
    empty = replace(pairs(), pairs=())
    assert "No pair of layers" in pair_matrix(empty).axes[0].texts[0].get_text()
