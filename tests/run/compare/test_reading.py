"""The sentences beside the numbers, and the table of `quantscope compare`."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from quantscope.report.compare import comparison_lines as lines
from quantscope.run.compare.reading import flag_tensors, reading, usual
from quantscope.run.compare.results import (
    ChannelComparison,
    Comparison,
    ErrorSources,
    OutputAgreement,
    TensorComparison,
    Uncompared,
)

NONE = np.zeros(0, np.int64)
OUTPUT = OutputAgreement(4, 3, np.array([7]), NONE, np.array([7]), 0.25, "softmax", "reference")
PLAIN = TensorComparison(
    name="a.out",
    float_name="a",
    layer="a",
    role="activation",
    bits=8,
    sqnr_db=35.0,
    local_sqnr_db=40.0,
    exact=False,
    clipped_low_fraction=0.0,
    clipped_high_fraction=0.0,
    used_share_of_range=0.9,
    rmse_steps=0.4,
    local_rmse_steps=0.29,
    ideal_rmse_steps=0.289,
    sources=ErrorSources(0.5, 0.2, 0.3, 0.0, None, {"x": 0.5}),
)


def comparison(*tensors: TensorComparison, **changes: object) -> Comparison:
    facts = {
        "model": "q.onnx",
        "digest": "1",
        "float_model": "f.onnx",
        "float_digest": "2",
        "execution": "reference",
        "data": "made up",
        "data_digest": "3",
        "images": 4,
        "unpaired": (),
        "unseen": (),
        "output": OUTPUT,
        "not_finite_from": None,
        "provenance": {},
    }
    return Comparison(tensors=tensors, **{**facts, **changes})  # type: ignore[arg-type]


def named(name: str, **changes: object) -> TensorComparison:
    return replace(PLAIN, name=name, **changes)  # type: ignore[arg-type]


def test_ordinary_tensors_are_not_spoken_of() -> None:
    assert reading(comparison(named("a"), named("b"), named("c"))) == ()


def test_a_poor_quantizer_is_held_against_the_others_of_its_width() -> None:
    found = comparison(named("a"), named("b"), named("c", local_sqnr_db=29.96), named("d"))
    assert flag_tensors(found) == {"c"}
    assert reading(found) == (
        "c: its own quantizer leaves 30.0 dB where 40.0 dB is usual for the 8-bit activations of "
        "this model, 10.0 dB less.",
    )


def test_what_is_normal_is_said_for_each_width() -> None:
    wide = [named(f"w{i}", bits=16, local_sqnr_db=88.0) for i in range(3)]
    assert usual(comparison(*wide, named("a"), named("b"), named("c"))) == (
        "Usual in this model for a quantizer alone (medians): 16-bit activations 88.0 dB, 8-bit "
        "activations 40.0 dB. Values spread evenly over a range around zero would have 48 dB at 8 "
        "bits and 96 dB at 16 bits; rounding costs them 0.29 steps."
    )
    assert usual(comparison(named("a"), named("b"))) is None


def test_decibels_of_an_even_spread_are_six_a_bit() -> None:
    """What the sentence above says of values that use the whole range."""
    for bits in (8, 16):
        values = np.random.default_rng(bits).uniform(-(2.0 ** (bits - 1)), 2.0 ** (bits - 1), 10**6)
        noise = values - np.rint(values)
        sqnr = 10 * np.log10((values**2).sum() / (noise**2).sum())
        assert sqnr == pytest.approx(20 * np.log10(2) * bits, abs=0.05)


def test_other_widths_are_not_held_against_each_other() -> None:
    wide = [named(f"w{i}", bits=16, local_sqnr_db=88.0) for i in range(3)]
    assert reading(comparison(*wide, named("a"), named("b"), named("c"))) == ()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"clipped_high_fraction": 0.02}, "2.00% of its float values are clipped at the high end"),
        ({"local_rmse_steps": 0.578}, "0.58 steps where rounding alone gives 0.29, 2.0 times"),
        ({"used_share_of_range": 0.1}, "its values use 10% of what 8 bits can represent"),
        (
            {"sources": ErrorSources(0.2, 0.1, 0.2, 0.0, 0.5, {})},
            "50% of its error is the kernel's",
        ),
    ],
)
def test_what_stands_out_is_said_with_its_size(change: dict[str, object], sentence: str) -> None:
    (found,) = reading(comparison(named("a", **change)))
    assert sentence in found


def test_what_is_only_rounded_at_the_end_does_not_stand_out() -> None:
    clipped = {"clipped_low_fraction": 0.02, "beyond_low_steps": 0.5}
    assert reading(comparison(named("a", **clipped))) == ()
    (found,) = reading(comparison(named("a", **clipped | {"beyond_low_steps": 3.14})))
    assert "2.00% of its float values are clipped at the low end, by up to 3.1 steps" in found


def test_poor_channels_of_a_weight_stand_out() -> None:
    def weight(name: str, *sqnrs: float | None) -> TensorComparison:
        channels = tuple(
            ChannelComparison(at, sqnr, sqnr, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
            for at, sqnr in enumerate(sqnrs)
        )
        return named(name, role="weight", channels=channels)

    fine = [weight(name, 40.0, 28.1, None) for name in "abc"]
    assert reading(comparison(*fine)) == ()
    (found,) = reading(comparison(*fine, weight("d", 27.9, 40.0, 0.0)))
    assert "2 of its 3 channels are more than 12 dB below the 40.0 dB" in found
    assert "channel 2 at 0.0 dB" in found
    (found,) = reading(comparison(*fine, weight("d", 27.9, 40.0, 40.0)))
    assert "1 of its 3 channels is more than 12 dB below" in found


def test_another_float_model_than_the_recorded_one_comes_first() -> None:
    same = comparison(named("a"), float_digest="f" * 64, made_from="f" * 64)
    other = replace(same, made_from="0" * 64)
    assert reading(same) == ()
    (sentence,) = reading(other)
    assert "was made from another float model than" in sentence
    assert "SHA-256 000000000000…, given ffffffffffff…" in sentence
    assert other.to_dict()["made_from"] == "0" * 64


def test_the_text_names_execution_flips_and_what_is_missing() -> None:
    found = comparison(
        named("a", exact=True, sqnr_db=None, local_sqnr_db=None, sources=None, no_sources="exact"),
        named("b"),
        unseen=(Uncompared("c", "activation", "cannot be seen"),),
    )
    text = "\n".join(lines(found))
    assert "q.onnx against f.onnx, reference execution, 4 images of made up" in text
    assert "same class for 75.00%, 1 changed (0 now right, 1 now wrong)" in text
    assert "  c: cannot be seen" in text
    assert "50.0%" in text and "exact" in text and "nothing stands out" in text


def test_the_command_prints_one_json_object() -> None:
    code = (
        "import typer; from quantscope.cli.compare import command; "
        "app = typer.Typer(); app.command()(command); app()"
    )
    words = ["resnet8-uint8", "--images", "2", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["images"] == 2 and found["execution"] == "reference"
    assert {tensor["role"] for tensor in found["tensors"]} == {"activation", "weight", "bias"}
