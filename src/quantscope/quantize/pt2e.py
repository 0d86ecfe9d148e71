"""Quantize ResNet8 statically with PyTorch's PT2E export flow. Needs the `torch` extra."""

import contextlib
import hashlib
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quantscope.data import Samples
from quantscope.errors import TORCH_INSTALL, BadConfigError, BadDataError, MissingExtraError
from quantscope.files import check_outputs, write_whole
from quantscope.progress import Progress, silent
from quantscope.quantize.config import PtqConfig
from quantscope.quantize.images import MAX_BATCH, choose_images
from quantscope.quantize.layers import check_layers
from quantscope.quantize.result import (
    PROVENANCE_KEY,
    Quantized,
    make_provenance,
    no_data_warning,
    one_value_warning,
    provenance_text,
)
from quantscope.zoo import build_torch, read_safetensors

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import GraphModule

_THEIRS = r"torch|torchao|onnxscript|onnx_ir|copyreg"
_CONV2D = "torch.nn.modules.conv.Conv2d"


def quantize_torch(
    float_path: Path,
    output: Path,
    config: PtqConfig,
    *,
    calibration: Samples | None = None,
    onnx_output: Path | None = None,
    progress: Progress = silent,
) -> Quantized:
    """Quantize ResNet8's weights (.safetensors) into a program (.pt2), and as ONNX QDQ if asked.

    Observers see the images in batches of 32; nothing of a batch is kept but their statistics.
    """
    if config.framework != "torch":
        raise BadConfigError(f"ResNet8's weights are quantized with torch, not {config.framework}")
    check_outputs(filter(None, [output, onnx_output]), reads=[float_path])
    weights = read_safetensors(float_path)
    images = choose_images(config, calibration)
    found = tuple(images.images.shape[1:])
    if found != (3, 32, 32):
        raise BadDataError(
            f"The calibration images of {images.name} have the shape {list(found)}, but "
            f"{float_path.name} takes [3, 32, 32]; save them in the model's own shape"
        )
    with quiet_torch():
        require_torch()
        import torch

        with torch.no_grad():
            observed = _prepare(build_torch(weights), config, source=float_path)
            _calibrate(observed, images, progress)
            notes = _warnings(observed, images=len(images))
            program = _convert(observed)
    provenance = make_provenance(
        config,
        images,
        float_digest=hashlib.sha256(float_path.read_bytes()).hexdigest(),
        packages=("torch", "torchao", "onnx", "numpy"),
    )
    content = _save(program, provenance)
    onnx_content = None
    if onnx_output:
        from quantscope.quantize.pt2e_onnx import onnx_bytes

        with quiet_torch():
            onnx_content = onnx_bytes(program, provenance)
    # Only now, with both contents made: a failed export leaves no file behind.
    write_whole(output, content)
    if onnx_output and onnx_content:
        write_whole(onnx_output, onnx_content)
    return Quantized(
        path=output,
        digest=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        config=config,
        provenance=provenance,
        warnings=notes,
        onnx_path=onnx_output,
        onnx_digest=hashlib.sha256(onnx_content).hexdigest() if onnx_content else None,
    )


def require_torch() -> None:
    """Import torch and torchao without their notes to developers, or say how to install them."""
    try:
        import torch
        import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401
    except ModuleNotFoundError as error:
        missing = (error.name or "torch").split(".")[0]
        raise MissingExtraError(
            f"Quantizing with PyTorch needs {missing}, which is not installed; install it with: "
            f"{TORCH_INSTALL}"
        ) from None
    del torch


@contextlib.contextmanager
def quiet_torch() -> Iterator[None]:
    """Silence torch, torchao and onnxscript on their deprecations and missing kernels."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            for kind in (DeprecationWarning, FutureWarning, UserWarning):
                warnings.filterwarnings("ignore", category=kind, module=_THEIRS)
            yield
    finally:
        logging.disable(disabled)


def _prepare(model: "torch.nn.Module", config: PtqConfig, *, source: Path) -> "GraphModule":
    """Export the network and put observers where the config wants quantizers."""
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e
    from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
        X86InductorQuantizer,
        get_default_x86_inductor_quantization_config,
    )

    from quantscope.quantize.pt2e_quantizer import PtqQuantizer, layers

    graph = _export(model).module()
    check_layers(config, layers(graph.graph), model=str(source))
    if config.torch_quantizer == "x86":
        _name_convolutions(graph)
        quantizer = X86InductorQuantizer()
        quantizer.set_global(get_default_x86_inductor_quantization_config())
    else:
        quantizer = PtqQuantizer(config)
    prepared: GraphModule = prepare_pt2e(graph, quantizer)
    return prepared


def _export(model: "torch.nn.Module") -> "ExportedProgram":
    import torch

    # With an example batch of 1 export would fix the batch at 1.
    example = (torch.zeros(2, 3, 32, 32),)
    batch = torch.export.Dim("batch", min=1, max=1 << 20)
    return torch.export.export(model, example, dynamic_shapes=({0: batch},))


def _name_convolutions(graph: "GraphModule") -> None:
    # The x86 quantizer looks for the class nn.Conv2d by name and passes over ours, a child of it.
    for node in graph.graph.nodes:
        stack = node.meta.get("nn_module_stack") or {}
        node.meta["nn_module_stack"] = {
            key: (path, _CONV2D if str(kind).endswith(".Convolution") else kind)
            for key, (path, kind) in stack.items()
        }


def _calibrate(observed: "GraphModule", images: Samples, progress: Progress) -> None:
    import torch

    total = len(images)
    progress("Calibrating", 0, total)
    for start in range(0, total, MAX_BATCH):
        batch = images.images[start : start + MAX_BATCH]
        observed(torch.from_numpy(np.ascontiguousarray(batch, dtype=np.float32)))
        progress("Calibrating", min(start + MAX_BATCH, total), total)


def _warnings(observed: "GraphModule", *, images: int) -> tuple[str, ...]:
    """Name quantizers whose observers saw nothing, or a single value."""
    from quantscope.quantize.pt2e_quantizer import layer_name

    modules = dict(observed.named_modules())
    found: dict[str, str] = {}
    for node in observed.graph.nodes:
        observer = modules.get(str(node.target)) if node.op == "call_module" else None
        lowest, highest = (getattr(observer, name, None) for name in ("min_val", "max_val"))
        if lowest is None or highest is None:
            continue
        source = node.args[0]
        name = (
            str(source.target) if source.op in ("get_attr", "placeholder") else layer_name(source)
        )
        if not lowest.numel() or lowest.min() == float("inf"):
            found[str(node.target)] = no_data_warning(name)
        elif lowest.numel() == 1 and lowest.item() == highest.item():
            found[str(node.target)] = one_value_warning(name, lowest.item(), images=images)
    return tuple(dict.fromkeys(found.values()))


def _convert(observed: "GraphModule") -> "ExportedProgram":
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

    converted = convert_pt2e(observed)
    _drop_unused(converted)
    program = _export(converted)
    program._example_inputs = None  # 3.1 of 3.7 MB, and a person's images are not the model
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths of the machine that made it
        node.meta.pop("from_node", None)  # addresses in its memory
    return program


def _drop_unused(model: "GraphModule") -> None:
    """Remove the float weights, which stay behind when their integers take their place."""
    used = {str(node.target) for node in model.graph.nodes if node.op == "get_attr"}
    for name in [name for name, _ in model.named_parameters() if name not in used]:
        path, _, attribute = name.rpartition(".")
        delattr(model.get_submodule(path), attribute)


def _save(program: "ExportedProgram", provenance: dict[str, Any]) -> bytes:
    import torch

    buffer = io.BytesIO()
    with quiet_torch():
        text = provenance_text(provenance)
        torch.export.save(program, buffer, extra_files={PROVENANCE_KEY: text})
    return buffer.getvalue()
