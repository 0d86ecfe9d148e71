"""What a quantized model says of the float one that it was made from."""

from pathlib import Path

import onnx

from quantscope.data import load_sample
from quantscope.model import bundled_models, load_onnx, open_model, unknown_original
from quantscope.quantize import PtqConfig, quantize_onnx
from quantscope.run.compare.compare import compare
from quantscope.study.sensitivity.sensitivity import sensitivity


def test_a_float_model_that_is_not_bundled_is_named_by_its_digest(
    random_resnet8: Path, tmp_path: Path
) -> None:
    path = tmp_path / "quantized.onnx"
    quantize_onnx(random_resnet8, path, PtqConfig(calibration_images=4))
    said = (
        f"{path.name} was made from a float model with SHA-256 "
        f"{load_onnx(random_resnet8).digest[:12]}…, which is not bundled; give it with --float FILE"
    )
    assert str(unknown_original(open_model(path))) == said
    stands_in = f"{path.name} with every quantizer off"
    for ask in (sensitivity, compare):
        assert ask(path, load_sample().take(1)).float_model == stands_in


def test_a_model_without_provenance_says_nothing_of_its_float_model(tmp_path: Path) -> None:
    model = onnx.load(bundled_models()["resnet8-int8"])
    del model.metadata_props[:]
    onnx.save(model, tmp_path / "bare.onnx")
    assert str(unknown_original(open_model(tmp_path / "bare.onnx"))) == (
        "bare.onnx does not say which float model it was made from; give it with --float FILE"
    )
