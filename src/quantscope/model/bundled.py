"""The models that come with the package, with the short names that are accepted like paths."""

from pathlib import Path

from quantscope.errors import BadModelError
from quantscope.files import BUNDLED, check_file, is_there

_BUNDLED = {
    "resnet8": "resnet8.onnx",
    "resnet8-int8": "resnet8-int8.onnx",
    "resnet8-uint8": "resnet8-uint8.onnx",
    "resnet8-torch": "resnet8.safetensors",
}
_FLOAT_OF = {"resnet8-int8": "resnet8", "resnet8-uint8": "resnet8"}


def bundled_models() -> dict[str, Path]:
    """Give the file of each bundled model by its short name."""
    return {name: BUNDLED / file for name, file in _BUNDLED.items()}


def find_model(name: str | Path, *, must_exist: bool = True) -> Path:
    """Find the path of a bundled model's name, or of a file as it is. A file of that name wins."""
    found = Path(name)
    by_name = bundled_models()
    if not is_there(found):
        by_file = {bundled.name: bundled for bundled in by_name.values()}
        found = by_name.get(str(name)) or by_file.get(str(name)) or found
    if must_exist:
        check_file(found, f"a model's path, or a bundled one: {', '.join(by_name)}", BadModelError)
    return found


def float_model_of(name: str | Path) -> Path | None:
    """Give the float original of a bundled quantized model; None for any other model."""
    path, files = find_model(name, must_exist=False), bundled_models()
    floats = (files[float_name] for name, float_name in _FLOAT_OF.items() if files[name] == path)
    return next(floats, None)
