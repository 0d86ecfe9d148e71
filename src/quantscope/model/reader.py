"""Any model file as a `Network`, whatever its format."""

from pathlib import Path

from quantscope.errors import BadModelError
from quantscope.files import check_file
from quantscope.model.network import Network
from quantscope.model.onnx import read_onnx
from quantscope.model.torch import is_zip, read_pt2, torch_kind

TORCH_SUFFIXES = (".pt2", ".pt", ".pth")


def read_network(path: Path | str) -> Network:
    """ONNX files, programs of torch.export and TorchScript archives, told apart by content."""
    path = Path(path)
    if path.suffix == ".safetensors":
        raise BadModelError(
            f"{path.name} holds weights alone, no layers; give the ONNX file of the network, or "
            f"quantize it to a .pt2 program"
        )
    check_file(path, "a model's file", BadModelError)
    if path.suffix in TORCH_SUFFIXES or is_zip(path):
        if torch_kind(path) == "pt2":
            return read_pt2(path)
        # The rarest kind of file; everybody else need not wait for its room to load.
        from quantscope.model.torchscript import read_torchscript

        return read_torchscript(path)
    return read_onnx(path)
