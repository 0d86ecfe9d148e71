"""Quantize exported programs, and ResNet8's weights, with PyTorch's PT2E. Needs the `torch` extra.

`pt2e_subject.py` has what is quantized and how it is fed, `pt2e_quantizer.py` where quantizers
stand, `pt2e_onnx.py` the way to ONNX.
"""

import contextlib
import hashlib
import io
import logging
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quantscope.data import Samples
from quantscope.errors import TORCH_INSTALL, BadConfigError, BadModelError, MissingExtraError
from quantscope.files import check_outputs, write_whole
from quantscope.model.torch import first_line
from quantscope.progress import Progress, silent
from quantscope.quantize.config import PtqConfig
from quantscope.quantize.images import choose_images
from quantscope.quantize.layers import check_layers
from quantscope.quantize.pt2e_subject import Feeder, Subject, open_subject
from quantscope.quantize.result import (
    PROVENANCE_KEY,
    Quantized,
    make_provenance,
    no_data_warning,
    one_value_warning,
    provenance_text,
    random_warnings,
)

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import GraphModule

_THEIRS = r"torch|torchao|onnxscript|onnx_ir|copyreg"
_CONV2D = "torch.nn.modules.conv.Conv2d"
_RECURRENT = ("gru", "lstm", "rnn_relu", "rnn_tanh")


def quantize_torch(
    float_path: Path,
    output: Path,
    config: PtqConfig,
    *,
    calibration: Samples | None = None,
    onnx_output: Path | None = None,
    progress: Progress = silent,
) -> Quantized:
    """Quantize a float program (.pt2), or ResNet8's weights (.safetensors), into a program.

    `onnx_output` is where the same goes as ONNX QDQ. Observers see the rows in batches of at most
    32; nothing of a batch is kept but their statistics.
    """
    if config.framework != "torch":
        raise BadConfigError(f"{float_path.name} is quantized with torch, not {config.framework}")
    check_outputs(filter(None, [output, onnx_output]), reads=[float_path])
    subject = open_subject(float_path)
    images = choose_images(config, calibration, model=subject.name, ports=subject.ports)
    feeder = subject.feeder(images)
    with quiet_torch():
        require_torch()
        import torch

        with torch.no_grad():
            graph = subject.graph()
            observed = _prepare(graph, config, subject)
            _calibrate(observed, subject, feeder, images=len(images), progress=progress)
            notes = (*random_warnings(images), *_warnings(observed, images=len(images)))
            program = _convert(observed, subject, feeder, config)
    provenance = make_provenance(
        config,
        images,
        float_digest=subject.digest,
        packages=("torch", "torchao", "onnx", "numpy"),
    )
    content = _save(program, provenance)
    onnx_content = None
    if onnx_output:
        from quantscope.quantize.pt2e_onnx import onnx_bytes

        with quiet_torch():
            onnx_content = onnx_bytes(program, provenance, subject)
    # Only now, with both contents made: a failed export leaves no file behind.
    write_whole(output, content)
    if onnx_output and onnx_content:
        write_whole(onnx_output, onnx_content)
    return replace(
        Quantized.of(content, output, config, provenance, notes),
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


def _prepare(graph: "GraphModule", config: PtqConfig, subject: Subject) -> "GraphModule":
    """Put observers where the config wants quantizers."""
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e
    from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
        X86InductorQuantizer,
        get_default_x86_inductor_quantization_config,
    )

    from quantscope.quantize.pt2e_quantizer import PtqQuantizer, layers, name_sources

    check_layers(config, layers(graph.graph), model=str(subject.path))
    if config.torch_quantizer == "x86":
        if subject.is_resnet8:
            _name_convolutions(graph)
        else:
            name_sources(graph)
        quantizer = X86InductorQuantizer()
        quantizer.set_global(get_default_x86_inductor_quantization_config())
    else:
        quantizer = PtqQuantizer(config)
    try:
        prepared: GraphModule = prepare_pt2e(graph, quantizer)
    except Exception as error:  # of any kind: torchao meets graphs that it was not written for
        raise BadModelError(
            f"torchao {version('torchao')} cannot place quantizers in {subject.name}: "
            f"{first_line(error)}; {_another_quantizer(config)}"
        ) from None
    return prepared


def _another_quantizer(config: PtqConfig) -> str:
    if config.torch_quantizer == "x86":
        return "try --torch-quantizer quantscope"
    return "leave layers float with --exclude, or quantize its ONNX form"


def _name_convolutions(graph: "GraphModule") -> None:
    # The x86 quantizer looks for the class nn.Conv2d by name and passes over ours, a child of it.
    for node in graph.graph.nodes:
        stack = node.meta.get("nn_module_stack") or {}
        node.meta["nn_module_stack"] = {
            key: (path, _CONV2D if str(kind).endswith(".Convolution") else kind)
            for key, (path, kind) in stack.items()
        }


def _calibrate(
    observed: "GraphModule",
    subject: Subject,
    feeder: Feeder,
    *,
    images: int,
    progress: Progress,
) -> None:
    size = subject.rows_at_once
    progress("Calibrating", 0, images)
    for start in range(0, images, size):
        arrays = feeder(start, min(start + size, images))
        try:
            subject.run(observed, arrays)
        except Exception as error:  # of any kind: what the program's own operators meet
            raise BadModelError(
                f"{subject.name} failed while it was calibrated: {first_line(error)}"
            ) from None
        progress("Calibrating", min(start + size, images), images)


def _warnings(observed: "GraphModule", *, images: int) -> tuple[str, ...]:
    """Name quantizers whose observers saw nothing, or a single value."""
    from quantscope.quantize.pt2e_quantizer import layer_name, operator_name

    modules = dict(observed.named_modules())
    found: dict[str, str] = {}
    for node in observed.graph.nodes:
        if (kind := operator_name(node)) in _RECURRENT:
            found[node.name] = (
                f"'{layer_name(node)}' stays float: PT2E has no quantizer for {kind.upper()}"
            )
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


def _why_nothing(config: PtqConfig) -> str:
    # torchao's own knows two-dimensional convolutions and Linear, and no others.
    if config.torch_quantizer == "x86":
        return (
            "torchao's x86 quantizer takes 2-D convolutions and linear layers on float values; "
            "--torch-quantizer quantscope takes more"
        )
    return "no convolution and no linear layer on float values"


def _convert(
    observed: "GraphModule", subject: Subject, feeder: Feeder, config: PtqConfig
) -> "ExportedProgram":
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

    try:
        converted = convert_pt2e(observed)
        _drop_unused(converted)
        program = subject.export(converted, feeder(0, subject.batch or 2))
    except Exception as error:  # of any kind: torchao meets graphs that it was not written for
        raise BadModelError(
            f"torchao {version('torchao')} cannot convert {subject.name}: {first_line(error)}"
        ) from None
    if not any("quantized_decomposed" in str(node.target) for node in program.graph.nodes):
        raise BadModelError(
            f"{subject.name} has nothing that this quantizer quantizes: {_why_nothing(config)}"
        )
    program._example_inputs = None  # 3.1 of 3.7 MB, and a person's images are not the model
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths of the machine that made it
        node.meta.pop("from_node", None)  # addresses in its memory
        node.meta.pop("source_fn_stack", None)
    return program


def _drop_unused(model: "GraphModule") -> None:
    """Remove the float weights, which stay behind when their integers take their place."""
    used = {str(node.target) for node in model.graph.nodes if node.op == "get_attr"}
    # Each of tied weights is there under a name of its own.
    held = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    for name in [name for name in held if name not in used]:
        path, _, attribute = name.rpartition(".")
        delattr(model.get_submodule(path), attribute)


def _save(program: "ExportedProgram", provenance: dict[str, Any]) -> bytes:
    import torch

    buffer = io.BytesIO()
    with quiet_torch():
        text = provenance_text(provenance)
        torch.export.save(program, buffer, extra_files={PROVENANCE_KEY: text})
    return buffer.getvalue()
