"""docs/quantization says what the bundled models give, and no number in it is typed by hand."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from doc_numbers import Executed, Fields, all_fields, execute
from doc_numbers.executed import EXAMPLE, IMAGES
from quantscope.data import load_sample
from quantscope.model import bundled_models
from quantscope.model.residuals import residuals
from quantscope.quantize import PtqConfig, quantize_torch
from quantscope.run import evaluate, kernel_map
from quantscope.run.capture.capture import capture
from quantscope.run.cpu import saturates_8bit_products
from quantscope.run.integers.compute import compute, operands_of
from quantscope.run.integers.trace import trace_value
from quantscope.run.onnx.kernels import map_kernels
from quantscope.run.onnx.sessions import session_of
from quantscope.zoo import Weights, write_safetensors
from render_docs import FIELD, FOLDER, render, templates, used_fields

PAGES = sorted(FOLDER.glob("*.md"))
WORKED = {
    "stem": "stem.at",
    "stack2.conv1": "strided.at",
    "head": "head.best",
    "stack1.add": "add.at",
}

# What may stand in a template as a number: ends of types, widths, indices, and plain arithmetic of
# these. Anything that a model or an image gives is a field.
CONSTANTS = {
    *("0", "1", "2", "3", "4", "8", "12"),
    *("16", "31", "32", "30", "7", "64", "127", "128", "255", "256"),
    *("32767", "32768", "32640", "64770"),
}


@pytest.fixture(scope="module")
def executed() -> Executed:
    return execute()


@pytest.fixture(scope="module")
def fields(executed: Executed) -> Fields:
    return all_fields(executed)


@pytest.mark.parametrize("template", templates(), ids=lambda path: path.name)
def test_page_is_what_its_template_and_the_models_give(template: Path, fields: Fields) -> None:
    page = FOLDER / template.stem
    assert page.read_text(encoding="utf-8") == render(template, fields), (
        f"{page.name} is out of date; run: python tools/render_docs.py"
    )


def test_every_page_has_a_template_and_every_field_a_reader(fields: Fields) -> None:
    assert [page.name for page in PAGES] == [template.stem for template in templates()]
    used = set().union(*(used_fields(path.read_text(encoding="utf-8")) for path in templates()))
    assert used == fields.keys()


@pytest.mark.parametrize("template", templates(), ids=lambda path: path.name)
def test_templates_hold_no_number_but_constants(template: Path) -> None:
    text = FIELD.sub("", template.read_text(encoding="utf-8")).replace("CIFAR-10", "")
    text = re.sub(r"\]\([^)]*\)", "]", text)  # link targets
    text = re.sub(r"^\d\. ", "", text, flags=re.MULTILINE)  # numbered lists
    numbers = re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w])", text)
    found = {part for number in numbers for part in number.strip(",").split(",")}
    assert found <= CONSTANTS


def test_constants_of_the_saturation_chapter_are_right() -> None:
    assert 2 * 255 * 127 == 64770 > 2**15 - 1
    assert 2 * 255 * 64 == 32640 <= 2**15 - 1


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_to_pages_and_headings(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        file, _, anchor = target.partition("#")
        linked = page.parent / file if file else page
        assert linked.is_file(), target
        headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}
        assert not anchor or anchor in anchors, target


@pytest.mark.parametrize("layer", WORKED)
def test_worked_values_are_those_of_trace_and_of_onnxruntime(layer: str, fields: Fields) -> None:
    at = [int(part) for part in str(fields[WORKED[layer]]).split(",")]
    trace = trace_value("resnet8-int8", layer, EXAMPLE, at, data=load_sample())
    prefix = {"stack2.conv1": "strided", "stack1.add": "add"}.get(layer, layer)
    assert trace.integer == fields["head.best_q" if layer == "head" else f"{prefix}.q"]
    assert trace.steps == pytest.approx(fields[f"{prefix}.steps"], rel=1e-12)
    assert trace.rounded == fields[f"{prefix}.rounded"]
    assert trace.real == fields["head.best_real" if layer == "head" else f"{prefix}.real"]
    assert trace.reference_steps == 0
    if layer != "stack1.add":
        assert trace.accumulator == fields[f"{prefix}.accumulator"]
        assert trace.sum == fields[f"{prefix}.sum"]
    if layer == "stem":
        assert trace.float_value == pytest.approx(fields["stem.float"], rel=1e-5)


def test_exact_integers_are_onnxruntimes_but_for_ties(executed: Executed) -> None:
    """Layer by layer, from the integers that onnxruntime's own layer before gave."""
    names = [step.y.name for step in executed.steps.values()]
    images = load_sample().take(IMAGES)
    seen = capture("resnet8-int8", images, ["input", "flatten.out", *names])
    integers = {name: seen[name].integers for name in ("input", "flatten.out", *names)}
    for step in executed.steps.values():
        made = compute(step.spec, operands_of(step.spec, integers), step.y).astype(np.int64)
        steps = np.abs(made - integers[step.y.name])
        assert steps.max() <= 1
        assert np.count_nonzero(steps) <= max(1, 1e-3 * steps.size)


@pytest.mark.skipif(
    saturates_8bit_products() is not True, reason="this CPU does not saturate 8-bit products"
)
def test_predicted_saturation_is_what_onnxruntime_gives_here(executed: Executed) -> None:
    found = evaluate("resnet8-uint8", load_sample().take(IMAGES), execution="runtime")
    predicted = executed.saturated["head"].output.argmax(axis=1)
    assert found.correct == int((predicted == executed.labels).sum())


CLAIMS: dict[str, Callable[[Executed, Fields], bool]] = {
    "01: pixels are exact": lambda _, f: (f["input.scale"], f["input.zero_point"]) == (1.0, -128),
    "01: weights are symmetric, -127..127, one scale per output channel": lambda e, _: all(
        not t.params.zero_point.any() and t.params.axis == 0 and t.integers().min() >= -127
        for t in e.network.tensors
        if t.role == "weight"
    ),
    "01: uint8 is int8 shifted by 128": lambda e, _: all(
        t.params.scale == o.params.scale and int(o.params.zero_point - t.params.zero_point) == 128
        for t, o in zip(e.network.tensors, e.uint8_network.tensors, strict=True)
        if t.role == "activation"
    ),
    "01: after a ReLU zero is the most frequent value": lambda e, _: all(
        np.bincount(step.output.ravel().astype(np.int64) + 128).argmax() == 0
        for step in e.steps.values()
        if step.y.folded_relu
    ),
    "01: the asymmetric example is not centred": lambda _, f: f["asym.symmetric_ratio"] > 1.05,
    "02: multipliers lie below 1": lambda _, f: f["requantize.largest"] < 1,
    "02: no accumulator comes near int32": lambda _, f: f["width.widest_partial"] <= 28,
    "02: the stem saturates, a pair sum does in image 0": lambda _, f: (
        f["saturation.layer"] == "stem" and f["pair.lost"] != 0
    ),
    "02: the stem has a folded ReLU": lambda e, _: e.network.tensor("stem.out").folded_relu,
    "02: pads of the strided layers are 0,0,1,1": lambda e, _: all(
        e.network.layer(f"stack{n}.conv1").attributes["pads"] == (0, 0, 1, 1) for n in (2, 3)
    ),
    "03: pool and flatten share parameters": lambda e, _: (
        e.network.tensor("pool.out").params == e.network.tensor("flatten.out").params
    ),
    "03: the example is classified with a lead": lambda _, f: f["head.margin"] > 0,
    "04: folded ReLUs have zero-point -128": lambda e, _: all(
        int(t.params.zero_point) == -128 for t in e.network.tensors if t.folded_relu
    ),
    "04: pool.out has -128 and no ReLU": lambda e, _: (
        int(e.network.tensor("pool.out").params.zero_point) == -128
        and not e.network.tensor("pool.out").folded_relu
    ),
    "04: every bias has scale s_x * s_w and zero-point 0": lambda e, _: all(
        step.spec.bias is not None and not step.spec.layer.bias.params.zero_point.any()
        for step in e.products
    ),
    "04: all three additions lose bits of a branch": lambda e, _: all(
        (r.smaller.bits_lost or 0) > 0 for r in residuals(e.network)
    ),
    "04: rounding branches apart is worse than short mantissas": lambda _, f: (
        f["residual.apart"] > 10 * f["residual.short"]
    ),
    "04: the pool's step is finer than its input's": lambda _, f: f["pool.finer"] > 1,
    "04: with the option on, everything runs as integers": lambda _, f: (
        f["kernel.allowed"] == f["kernel.computing"] > f["kernel.forbidden"]
    ),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_prose_holds(claim: str, executed: Executed, fields: Fields) -> None:
    """What the pages say in words about the model; if one fails, its sentence has to change."""
    assert CLAIMS[claim](executed, fields)


def test_int8_kernels_are_off_by_default_on_x86() -> None:
    import platform

    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("the default is another one on other processors")
    path = bundled_models()["resnet8-int8"]
    default, off = kernel_map(path), kernel_map(path, int8_kernels=False)
    assert default.layers == off.layers


def _bias_times(factor: float, layer: str = "stack2.conv1") -> onnx.ModelProto:
    model = onnx.load(bundled_models()["resnet8-int8"])
    for tensor in model.graph.initializer:
        if tensor.name == f"{layer}.bias_quantized_scale":
            scaled = numpy_helper.to_array(tensor) * np.float32(factor)
            tensor.CopyFrom(numpy_helper.from_array(scaled, tensor.name))
    return model


def _float_bias() -> onnx.ModelProto:
    model = onnx.load(bundled_models()["resnet8-int8"])
    (maker,) = (node for node in model.graph.node if "stack2.conv1.bias" in node.output)
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    real = constants[maker.input[0]].astype(np.float32) * constants[maker.input[1]]
    model.graph.node.remove(maker)
    model.graph.initializer.append(numpy_helper.from_array(real, "stack2.conv1.bias"))
    return model


def _read_twice() -> onnx.ModelProto:
    model = onnx.load(bundled_models()["resnet8-int8"])
    (conv,) = (node for node in model.graph.node if node.name == "stack2.conv1")
    kind = onnx.TensorProto.FLOAT
    model.graph.output.append(onnx.helper.make_tensor_value_info(conv.output[0], kind, None))
    return model


@pytest.mark.parametrize(
    ("model", "fused"),
    [
        pytest.param(lambda: _bias_times(1.009), True, id="bias scale 0.9 % off"),
        pytest.param(lambda: _bias_times(1.02), False, id="bias scale 2 % off"),
        pytest.param(_float_bias, True, id="float bias"),
        pytest.param(_read_twice, False, id="float output read twice"),
    ],
)
def test_fusing_needs_what_page_4_says(model: Callable[[], onnx.ModelProto], fused: bool) -> None:
    layers = {layer.name: layer for layer in map_kernels(model(), int8_kernels=True).layers}
    assert (layers.pop("stack2.conv1").kernel == "integer") == fused
    assert all(layer.kernel != "float" for layer in layers.values())


def test_qgemm_does_not_see_the_scale_of_its_bias() -> None:
    feed = {"input": load_sample().images[:2].astype(np.float32)}
    stated, fused, plain = (
        session_of(_bias_times(factor, "head"), execution, int8_kernels=True).run(None, feed)[0]
        for factor, execution in ((4, "reference"), (4, "runtime"), (1, "runtime"))
    )
    assert np.array_equal(fused, plain)
    assert not np.allclose(fused, stated, atol=0.5)


@pytest.mark.slow
def test_x86_quantizer_of_pt2e_stands_where_page_4_says(
    random_weights: Weights, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchao")
    from quantscope.quantize.pt2e import quiet_torch

    write_safetensors(random_weights, tmp_path / "w.safetensors")
    config = PtqConfig(framework="torch", calibration_images=32)
    made = quantize_torch(tmp_path / "w.safetensors", tmp_path / "q.pt2", config)
    assert made.config.torch_quantizer == "x86"
    with quiet_torch():
        nodes = list(torch.export.load(made.path).graph.nodes)
    called = [node for node in nodes if node.op == "call_function"]

    def named(part: str) -> list[object]:
        return [node for node in called if part in str(node.target)]

    for add in named("aten.add"):
        kinds = {str(source.target).partition(".")[2] for source in add.args}
        assert kinds == {"dequantize_per_tensor.default", "conv2d.default"}
    (logits,) = nodes[-1].args[0]
    assert "linear" in str(logits.target)
    (pool,) = named("avg_pool")
    (quantizer,) = pool.users
    assert quantizer.args[1:3] == pool.args[0].args[1:3]
    for pad in named("aten.pad"):
        assert "relu" in str(pad.args[0].target)
        assert len([user for user in pad.args[0].users if "quantize" in str(user.target)]) == 1
        assert [str(user.target).partition(".")[2] for user in pad.users] == [
            "quantize_per_tensor.default"
        ]
    assert all(type(node.args[1]) is float for node in named(".quantize_per_tensor"))
    weights = named("dequantize_per_channel")
    assert {node.args[4:6] for node in weights} == {(-128, 127)}
    biases = [node.args[2] for node in named("aten.conv2d")]
    assert all(node.op == "placeholder" for node in biases)
