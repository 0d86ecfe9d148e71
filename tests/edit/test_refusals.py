"""What cannot be done is refused in one line that says what was wrong and what to do."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from tiny_onnx import constant, model, saved, value
from tiny_qdq import TinyQdq

from quantscope.edit import (
    Edit,
    Editor,
    FlipBit,
    Off,
    OffRole,
    On,
    SetChannel,
    SetInteger,
    SetRange,
    SetScale,
    SetZeroPoint,
)
from quantscope.errors import QuantscopeError

FROM_TO = "give a number from 1.2e-38 to 3.4e+38"
NAN, INF = float("nan"), float("inf")

REFUSALS: list[tuple[Edit, str]] = [
    (SetScale("stem.out", 0.0), f"The scale 0 for stem.out is not positive; {FROM_TO}"),
    (SetScale("stem.out", -0.5), f"The scale -0.5 for stem.out is not positive; {FROM_TO}"),
    (SetScale("stem.out", NAN), f"The scale nan for stem.out is not finite; {FROM_TO}"),
    (SetScale("stem.out", INF), f"The scale inf for stem.out is not finite; {FROM_TO}"),
    (SetScale("stem.out", 1e39), f"The scale 1e+39 for stem.out is too large; {FROM_TO}"),
    (
        SetScale("stem.out", 1e-40),
        f"The scale 1e-40 for stem.out is too small (denormal); {FROM_TO}",
    ),
    (
        SetScale("head.weight", (*[0.1] * 6, 0.0, *[0.1] * 3)),
        f"The scale 0 (channel 6) for head.weight is not positive; {FROM_TO}",
    ),
    (
        SetScale("stem.out", factor=-2.0),
        "The factor -2 for the scale of stem.out is not a positive number; "
        "give one such as 2 or 0.5",
    ),
    (SetScale("stem.out"), "No scale is given for stem.out; give a scale or a factor"),
    (
        SetScale("stem.out", 1.0, 2.0),
        "The scale of stem.out is to be set to a scale and by a factor; give one of them",
    ),
    (
        SetScale("head.weight", (0.1, 0.2)),
        "2 scales are given for head.weight, which has 10, one per channel",
    ),
    (SetScale("stem.out", (0.1, 0.2)), "2 scales are given for stem.out, which has one"),
    (
        SetScale("stem.bias", 0.1),
        "stem.bias has no scale of its own: it counts in steps of input times stem.weight; "
        "change one of those",
    ),
    (
        SetZeroPoint("stem.out", 128),
        "stem.out: zero-point 128 does not fit int8; give one from -128 to 127",
    ),
    (
        SetZeroPoint("stem.out", -129),
        "stem.out: zero-point -129 does not fit int8; give one from -128 to 127",
    ),
    (
        SetZeroPoint("head.weight", (1, 2, 3)),
        "3 zero-points are given for head.weight, which has 10, one per channel",
    ),
    (
        SetZeroPoint("stem.out", 0.5),  # type: ignore[arg-type]
        "The zero-point 0.5 for stem.out is not a whole number",
    ),
    (
        SetRange("stem.out", 1.0, 2.0),
        "The range [1, 2] for stem.out does not hold 0, which int8 must represent exactly; "
        "give a low end of 0 or less and a high end of 0 or more",
    ),
    (
        SetRange("stem.out", 2.0, -1.0),
        "stem.out: range [2, -1] is reversed; give the low end first",
    ),
    (
        SetRange("stem.out", 0.0, 0.0),
        "The range [0, 0] for stem.out is empty, so its scale would be 0; "
        "give two ends that differ",
    ),
    (
        SetRange("stem.out", 0.0, INF),
        "stem.out: a range with NaN or infinity has no scale; give finite ends",
    ),
    (
        SetRange("stem.out", 0.0, 1e-39),
        "The range [0, 1e-39] for stem.out is too narrow: its scale would be denormal",
    ),
    (
        SetScale("stem.uot", 0.1),
        "No quantized tensor 'stem.uot' in resnet8-int8.onnx; closest: stem.out, "
        "stem.weight, stem.bias. List them with: quantscope inspect resnet8-int8",
    ),
    (
        Off("stack9"),
        "No layer or quantized tensor 'stack9' in resnet8-int8.onnx; closest: stack3.add, "
        "stack2.add, stack1.add. List them with: quantscope inspect resnet8-int8",
    ),
    (
        On("nothing at all"),
        "No layer or quantized tensor 'nothing at all' in resnet8-int8.onnx. "
        "List them with: quantscope inspect resnet8-int8",
    ),
    (
        SetScale("stem", 0.1),
        "'stem' is a layer of resnet8-int8.onnx; name one of its tensors: "
        "stem.weight, stem.bias, stem.out",
    ),
    (
        SetInteger("stem.out", (0,), 1),
        "stem.out has no stored integers to set: it is computed when the model runs",
    ),
    (
        SetInteger("head.weight", (0, 64), 1),
        "head.weight has no element [0, 64]; its shape is [10, 64]",
    ),
    (
        SetInteger("head.weight", (0, -1), 1),
        "head.weight has no element [0, -1]; its shape is [10, 64]",
    ),
    (SetInteger("head.weight", (3,), 1), "head.weight has no element [3]; its shape is [10, 64]"),
    (
        SetInteger("head.weight", (0, 0), 200),
        "200 does not fit int8 of head.weight; give an integer from -128 to 127",
    ),
    (SetChannel("head.weight", 10, 0), "head.weight has no channel 10; give one from 0 to 9"),
    (
        SetChannel("head.weight", 1, (1, 2)),
        "2 integers are given for channel 1 of head.weight, which has 64",
    ),
    (
        SetChannel("head.weight", 1, -129),
        "-129 does not fit int8 of head.weight; give an integer from -128 to 127",
    ),
    (
        FlipBit("head.weight", (0, 0), 8),
        "int8 of head.weight has no bit 8; give one from 0 to 7",
    ),
    (
        SetZeroPoint("stem.out", 2**70),
        f"stem.out: zero-point {2**70} does not fit int8; give one from -128 to 127",
    ),
    (SetScale("stem.out", 10**40), f"The scale 1e+40 for stem.out is too large; {FROM_TO}"),
    (
        OffRole("biases"),  # type: ignore[arg-type]
        "No role is called 'biases'; there are: weights, activations",
    ),
]


@pytest.mark.parametrize(("edit", "text"), REFUSALS, ids=lambda value: str(value)[:60])
def test_an_edit_that_cannot_be_is_refused_in_one_line(edit: Edit, text: str, int8: Editor) -> None:
    with pytest.raises(QuantscopeError) as refused:
        int8.apply([edit])
    assert str(refused.value) == text


def test_a_refusal_leaves_the_editor_as_it_was(int8: Editor) -> None:
    with pytest.raises(QuantscopeError):
        int8.apply([SetScale("stem.out", 0.5), SetScale("stem.out", 0.0)])
    assert int8.apply([]).proto == int8.base


def partly_quantized(folder: Path) -> Path:
    net = TinyQdq((2, 3, 3))
    x = net.quantize("x", 0.1, 0, np.uint8)
    net.constant("w", np.ones((2, 2, 1, 1), np.float32))
    net.node("Conv", [x, "w"], "conv")
    net.node("Relu", ["conv"], "relu")
    return net.save(folder, "relu")


@pytest.mark.parametrize("name", ["conv.out", "conv.weight", "w", "relu.out"])
def test_a_tensor_that_is_not_quantized_is_said_to_be_none(name: str, tmp_path: Path) -> None:
    path = partly_quantized(tmp_path)
    editor = Editor(path)
    with pytest.raises(QuantscopeError) as refused:
        editor.apply([SetScale(name, 0.1)])
    assert str(refused.value) == (
        f"{name!r} is not quantized in tiny.onnx, so it has no scale to change. "
        f"List the quantized tensors with: quantscope inspect {path}"
    )


def test_a_layer_with_nothing_quantized_cannot_go_off(tmp_path: Path) -> None:
    editor = Editor(partly_quantized(tmp_path))
    with pytest.raises(QuantscopeError) as refused:
        editor.apply([Off("relu")])
    assert str(refused.value) == (
        "Layer 'relu' of tiny.onnx has no quantized weight, bias or output"
    )


def test_weights_packed_for_one_operator_are_left_alone(tmp_path: Path) -> None:
    multiply = helper.make_node(
        "MatMulNBits",
        ["x", "wq", "s"],
        ["y"],
        name="multiply",
        domain="com.microsoft",
        **{"K": 32, "N": 4, "bits": 4, "block_size": 32},
    )
    packed = np.arange(64, dtype=np.uint8).reshape(4, 1, 16)
    parts = [constant("wq", packed), constant("s", np.full(4, 0.1, np.float32))]
    proto = model([multiply], parts, inputs=[value("x", ["N", 32])])
    editor = Editor(saved(proto, tmp_path))
    with pytest.raises(QuantscopeError) as refused:
        editor.apply([SetScale("multiply.weight", factor=2.0)])
    assert str(refused.value) == (
        "multiply.weight cannot be edited: MatMulNBits 'multiply' computes with its integers and "
        "has no form in QDQ"
    )
    assert not editor.lifted
    assert editor.apply([OffRole("weights")]).changes == ()


def test_a_float_model_has_nothing_to_edit() -> None:
    with pytest.raises(QuantscopeError) as refused:
        Editor("resnet8")
    assert str(refused.value) == (
        "resnet8.onnx is not quantized: it has no parameters to edit; "
        "make a quantized model of it with: quantscope quantize resnet8 -o OUT.onnx"
    )


def test_a_float_model_of_another_network_is_refused(
    random_resnet8: Path, quantized: Callable[..., Path]
) -> None:
    with pytest.raises(QuantscopeError, match="do not belong together"):
        Editor("resnet8-int8", random_resnet8)


def test_a_program_of_pytorch_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(QuantscopeError) as refused:
        Editor(path)
    assert "\n" not in str(refused.value)
