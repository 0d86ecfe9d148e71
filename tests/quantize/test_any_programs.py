"""Float programs of any network are quantized with PT2E, and stay close to what they were."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchao")

from tests.support.any_programs import NETWORKS, rows_for, save, save_module  # noqa: E402

from quantscope.data import Samples  # noqa: E402
from quantscope.errors import QuantscopeError  # noqa: E402
from quantscope.model import open_model  # noqa: E402
from quantscope.quantize import PtqConfig, quantize_model, quantize_torch  # noqa: E402
from quantscope.quantize.agreement import program_agreement  # noqa: E402
from quantscope.run import open_runnable  # noqa: E402

ROWS = 8
QUICK_X86 = ("squeeze-excite", "attention", "gru-step")
"""A convolution, a linear layer and a recurrent step; the others are tried with the slow tests."""


def config(**settings: Any) -> PtqConfig:
    return PtqConfig(framework="torch", **{"calibration_images": ROWS} | settings)


def rows_of(name: str, path: Path) -> Samples:
    return rows_for(name, ROWS, tuple(port.name for port in open_model(path).inputs))


def outputs(path: Path, rows: Samples) -> list[dict[str, Any]]:
    run = open_runnable(path)
    return [run.outputs(batch.feeds) for batch in run.intake.batches(rows)]


def signal_db(plain: Any, quantized: Any) -> float:
    error = np.sum((np.float64(plain) - quantized) ** 2)
    return float(10 * np.log10(np.sum(np.float64(plain) ** 2) / error)) if error else np.inf


@pytest.mark.parametrize(
    ("name", "quantizer"),
    [
        *((name, "quantscope") for name in NETWORKS),
        *(
            pytest.param(name, "x86", marks=() if name in QUICK_X86 else pytest.mark.slow)
            for name in NETWORKS
        ),
    ],
)
def test_all_outputs_stay_close(name: str, quantizer: str, tmp_path: Path) -> None:
    plain, quantized = save(name, tmp_path / "f.pt2"), tmp_path / "q.pt2"
    rows = rows_of(name, plain)
    quantize_torch(plain, quantized, config(torch_quantizer=quantizer), calibration=rows)
    before, after = open_model(plain), open_model(quantized)
    assert after.inputs == before.inputs
    assert [port.shape for port in after.outputs] == [port.shape for port in before.outputs]
    for expected, found in zip(outputs(plain, rows), outputs(quantized, rows), strict=True):
        for one, other in zip(expected.values(), found.values(), strict=True):
            assert signal_db(one, other) > 17


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_recurrent_layers_stay_float_and_a_warning_says_so(name: str, tmp_path: Path) -> None:
    plain = save(name, tmp_path / "f.pt2")
    done = quantize_torch(plain, tmp_path / "q.pt2", config(), calibration=rows_of(name, plain))
    assert done.warnings == (f"'rnn' stays float: PT2E has no quantizer for {name.upper()}",)


@pytest.mark.parametrize("name", ["squeeze-excite", "u-net", "autoencoder", "bytes", "gru-step"])
def test_the_onnx_form_gives_the_same(name: str, tmp_path: Path) -> None:
    plain, quantized = save(name, tmp_path / "f.pt2"), tmp_path / "q.pt2"
    rows, onnx = rows_of(name, plain), tmp_path / "q.onnx"
    quantize_torch(plain, quantized, config(), calibration=rows, onnx_output=onnx)
    agreement = program_agreement(quantized, onnx, rows)
    assert agreement.images == ROWS
    spread = max(
        float(np.ptp(found)) for part in outputs(quantized, rows) for found in part.values()
    )
    # What rounds the other way moves a value by a step or two of 256.
    assert agreement.largest_difference <= 0.02 * spread
    made, expected = open_model(onnx), open_model(plain)
    assert [port.name for port in made.inputs] == [port.name for port in expected.inputs]
    assert [port.name for port in made.outputs] == [port.name for port in expected.outputs]


def test_what_cannot_be_quantized_is_one_line(tmp_path: Path) -> None:
    plain, output = save("autoencoder", tmp_path / "f.pt2"), tmp_path / "q.pt2"
    rows = rows_of("autoencoder", plain)

    def refusal(path: Path, given: Samples | None, **settings: Any) -> str:
        with pytest.raises(QuantscopeError) as raised:
            quantize_torch(path, tmp_path / "no.pt2", config(**settings), calibration=given)
        assert not (tmp_path / "no.pt2").exists()
        return str(raised.value)

    quantize_torch(plain, output, config(), calibration=rows)
    assert refusal(output, rows) == (
        "q.pt2 is quantized already; give the float program that it was made from"
    )
    fixed = save("autoencoder", tmp_path / "three.pt2", dynamic=False)
    assert refusal(fixed, rows, calibration_images=7).startswith("three.pt2 takes 2 rows at once")
    wide = Samples("wide.npz", {"x": np.zeros((ROWS, 41))}, None, np.arange(ROWS), (), "as-is")
    assert refusal(plain, wide) == (
        "The calibration images of wide.npz have the shape [41], but f.pt2 takes [40]; save them "
        "in the model's own shape"
    )
    text = save("attention", tmp_path / "text.pt2")
    few = Samples("few.npz", {"ids": np.zeros((ROWS, 9), int)}, None, np.arange(ROWS), (), "as-is")
    assert refusal(text, few) == ("few.npz has no array 'mask', an input of text.pt2; it has ids")
    floats = rows_of("attention", text).arrays | {"ids": np.zeros((ROWS, 9))}
    given = Samples("few.npz", floats, None, np.arange(ROWS), (), "as-is")
    assert refusal(text, given) == (
        "The calibration rows of few.npz are float64, but 'ids' of text.pt2 takes int64; save "
        "them as int64"
    )

    class Nothing(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.round().abs()

    nothing = save_module(Nothing(), (torch.ones(2, 40),), tmp_path / "nothing.pt2")
    assert refusal(nothing, rows, torch_quantizer="x86") == (
        "nothing.pt2 has nothing that this quantizer quantizes: torchao's x86 quantizer takes 2-D "
        "convolutions and linear layers on float values; --torch-quantizer quantscope takes more"
    )


def test_sizes_that_the_program_does_not_take_are_refused_and_not_chosen(tmp_path: Path) -> None:
    class Places(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(9, 8)
            self.head = torch.nn.Linear(8, 3)

        def forward(self, ids: Any) -> Any:
            return self.head(self.table(ids)).mean(1)

    example = (torch.ones(2, 5, dtype=torch.int64),)
    sizes = ({0: torch.export.Dim("rows", max=64), 1: torch.export.Dim("length", min=2, max=6)},)
    program = torch.export.export(Places().eval(), example, dynamic_shapes=sizes)
    plain = tmp_path / "f.pt2"
    torch.export.save(program, plain)
    made = quantize_model(plain, tmp_path / "q.pt2", config(), calibration=f"random:{ROWS}")
    assert made.warnings[0].startswith("It was calibrated with random rows")
    assert made.provenance["calibration"]["random"] is True
    long = Samples.from_arrays("long.npz", {"ids": np.ones((ROWS, 7), np.int64)})
    with pytest.raises(QuantscopeError) as raised:
        quantize_torch(plain, tmp_path / "no.pt2", config(), calibration=long)
    dim = open_model(plain).inputs[0].shape[1]
    assert str(raised.value) == (
        f"'ids' of long.npz has 7 where f.pt2 takes 2 to 6 ({dim!r}); give shorter or longer rows"
    )
    with pytest.raises(QuantscopeError) as raised:
        outputs(made.path, long)
    assert " has 7 where q.pt2 takes 2 to 6 " in str(raised.value)
    high = Samples.from_arrays("high.npz", {"ids": np.full((ROWS, 4), 9)})
    with pytest.raises(QuantscopeError) as raised:
        quantize_torch(plain, tmp_path / "no.pt2", config(), calibration=high)
    assert str(raised.value).startswith("f.pt2 failed while it was calibrated: ")
