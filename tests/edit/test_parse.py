"""Edits as they are typed on the command line."""

from collections.abc import Callable

import pytest

from quantscope.edit import (
    Edit,
    Off,
    OffRole,
    On,
    OnRole,
    SetRange,
    SetScale,
    SetZeroPoint,
    parse_off,
    parse_on,
    parse_range,
    parse_set,
)
from quantscope.errors import BadConfigError


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("stem.out.scale=0.1", SetScale("stem.out", 0.1)),
        ("stem.out.scale = 1e-3", SetScale("stem.out", 0.001)),
        ("stem.out.scale=x2", SetScale("stem.out", factor=2.0)),
        ("stem.out.scale=*0.5", SetScale("stem.out", factor=0.5)),
        ("w.scale=0.1,0.2, 0.3", SetScale("w", (0.1, 0.2, 0.3))),
        ("stem.out.zero_point=-3", SetZeroPoint("stem.out", -3)),
        ("w.zero_point=1,2", SetZeroPoint("w", (1, 2))),
        ("odd=name.scale=1", SetScale("odd=name", 1.0)),
    ],
)
def test_what_is_typed_after_set(text: str, edit: Edit) -> None:
    assert parse_set(text) == edit


def test_what_is_typed_after_range_off_and_on() -> None:
    assert parse_range("stem.out=-1, 3.5") == SetRange("stem.out", -1.0, 3.5)
    assert parse_off("weights") == parse_off("all weights") == OffRole("weights")
    assert parse_off("activations") == OffRole("activations")
    assert parse_off(" stem ") == Off("stem")
    assert parse_on("weights") == OnRole("weights")
    assert parse_on("stem.out") == On("stem.out")


SETS = "give TENSOR.scale=NUMBER, TENSOR.scale=xFACTOR or TENSOR.zero_point=INTEGER"


@pytest.mark.parametrize(
    ("parse", "text", "refusal"),
    [
        (parse_set, "stem.out", f"'stem.out' is not something to set; {SETS}"),
        (parse_set, "scale=3", f"'scale=3' is not something to set; {SETS}"),
        (parse_set, "stem.out.range=3", f"'stem.out.range=3' is not something to set; {SETS}"),
        (parse_set, "a.scale=", "'' in 'a.scale=' is not a number"),
        (parse_set, "a.scale=1,,2", "'' in 'a.scale=1,,2' is not a number"),
        (parse_set, "a.scale=big", "'big' in 'a.scale=big' is not a number"),
        (parse_set, "a.scale=xbig", "'big' in 'a.scale=xbig' is not a factor"),
        (parse_set, "a.scale=x2,3", "'a.scale=x2,3' needs 1 number and has 2"),
        (parse_set, "a.zero_point=1.5", "'1.5' in 'a.zero_point=1.5' is not a whole number"),
        (parse_range, "a", "'a' is not a range; give TENSOR=LOW,HIGH"),
        (parse_range, "a=1", "'a=1' needs 2 numbers and has 1"),
        (
            parse_off,
            " ",
            "Nothing is named to switch off; give a layer, a tensor or 'weights'",
        ),
    ],
)
def test_what_cannot_be_read_is_said(parse: Callable[[str], Edit], text: str, refusal: str) -> None:
    with pytest.raises(BadConfigError) as refused:
        parse(text)
    assert str(refused.value) == refusal
