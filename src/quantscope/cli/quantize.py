"""Run `quantscope quantize`: quantize a float model after training."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quantscope.cli.console import emit_json, messages, progress_bar, show
from quantscope.cli.options import CalibrationData, Json, RangeOption
from quantscope.cli.outputs import Writes, careful
from quantscope.cli.rows import load_samples, takes_rows

if TYPE_CHECKING:
    from quantscope.data import RowWishes
    from quantscope.quantize import Agreement, Quantized

_FRAMEWORKS = {".onnx": "onnxruntime", ".safetensors": "torch", ".pt2": "torch"}
_COMPARED_IMAGES = 200
_USUAL_ROWS = 256


@careful
@takes_rows
def command(
    model: Annotated[
        str,
        typer.Argument(
            help="A float model: .onnx, .pt2, ResNet8's .safetensors, or a bundled name."
        ),
    ],
    # `--exclude A B` leaves B over, which then names another layer.
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    *,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The file to write: .onnx, or .pt2 with torch."),
        Writes(".onnx", ".pt2"),
    ],
    framework: Annotated[
        str | None, typer.Option(help="onnxruntime or torch; default: what the file's suffix says.")
    ] = None,
    activations: Annotated[
        str | None,
        typer.Option(
            help="int8 or uint8 (onnxruntime also int16, uint16). "
            "Default: int8 with onnxruntime, uint8 with torch."
        ),
    ] = None,
    weights: Annotated[str, typer.Option(help="int8 or uint8.")] = "int8",
    weight_bits: Annotated[
        str | None,
        typer.Option(
            help="2 to 8, 16 (onnxruntime) or float, in the ranges of 8 bits. Default: the type's."
        ),
    ] = None,
    activation_bits: Annotated[
        str | None, typer.Option(help="The same for the activations. Default: the type's.")
    ] = None,
    calibration: Annotated[
        str | None,
        typer.Option(help="minmax, entropy or percentile (onnxruntime). Default: minmax."),
    ] = None,
    percentile: Annotated[
        float | None, typer.Option(help="For calibration percentile. Default: 99.99.")
    ] = None,
    histogram_bins: Annotated[
        int | None,
        typer.Option(help="For entropy and percentile. Default: onnxruntime's, 128 and 2048."),
    ] = None,
    observer: Annotated[
        str | None,
        typer.Option(help="minmax, moving-average or histogram (torch). Default: histogram."),
    ] = None,
    weight_observer: Annotated[
        str | None, typer.Option(help="minmax or histogram (torch). Default: minmax.")
    ] = None,
    torch_quantizer: Annotated[
        str | None,
        typer.Option(
            help="x86 (torchao's) or quantscope (placed as onnxruntime places them). "
            "Default: x86 where the other options are its defaults."
        ),
    ] = None,
    calibration_images: Annotated[
        int | None,
        typer.Option(
            help="How many rows calibrate. Default: 256, or all of --calibration-data if it has "
            "fewer."
        ),
    ] = None,
    calibration_seed: Annotated[int, typer.Option(help="Which rows calibrate.")] = 0,
    calibration_data: CalibrationData = None,
    rows: "RowWishes | None" = None,
    per_channel: Annotated[
        bool, typer.Option("--per-channel/--per-tensor", help="One scale for each output channel.")
    ] = True,
    symmetric_activations: Annotated[
        bool, typer.Option("--symmetric-activations", help="Zero-points in the middle.")
    ] = False,
    reduce_range: Annotated[
        bool, typer.Option("--reduce-range", help="7-bit weights, for CPUs without VNNI.")
    ] = False,
    format_: Annotated[
        str | None, typer.Option("--format", help="qdq or qoperator (onnxruntime). Default: qdq.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="LAYER ...", help="Layers to leave float.")
    ] = None,
    exclude_from: Annotated[
        Path | None,
        typer.Option(help="A text file with more of them, one a line; # begins a remark."),
    ] = None,
    onnx: Annotated[
        Path | None,
        typer.Option("--onnx", help="With torch: also write it as ONNX QDQ."),
        Writes(".onnx"),
    ] = None,
    range_: RangeOption = "keep",
    as_json: Json = False,
) -> None:
    """Quantize a float model of any kind after training, calibrated on rows of its inputs.

    Example: quantscope quantize resnet8 -o resnet8-int8.onnx --calibration percentile

    Example: quantscope quantize bert.onnx -o bert-int8.onnx --calibration-data rows.npz

    Example: quantscope quantize resnet8-torch -o resnet8-int8.pt2 --activations int8

    Example: quantscope quantize resnet8 -o w4a8.onnx --weight-bits 4
    """
    from quantscope.data import RowWishes, load_sample
    from quantscope.errors import BadConfigError
    from quantscope.model import find_model, open_model
    from quantscope.quantize import (
        LayerOverride,
        PtqConfig,
        program_agreement,
        quantize_onnx,
        quantize_torch,
    )

    if more and not exclude:
        raise BadConfigError(f"One model is quantized at a time; '{more[0]}' is one too many")
    path = find_model(model)
    if onnx and _framework(path, framework) != "torch":
        raise BadConfigError("--onnx goes with --framework torch; onnxruntime writes ONNX to -o")
    listed = () if exclude_from is None else read_layers(exclude_from)
    # What was not given keeps its None, which the config fills in or refuses.
    options: dict[str, Any] = {
        "framework": _framework(path, framework),
        "activations": activations,
        "weights": weights,
        "calibration": calibration,
        "percentile": percentile,
        "histogram_bins": histogram_bins,
        "observer": observer,
        "weight_observer": weight_observer,
        "torch_quantizer": torch_quantizer,
        "calibration_images": _USUAL_ROWS if calibration_images is None else calibration_images,
        "calibration_seed": calibration_seed,
        "per_channel": per_channel,
        "symmetric_activations": symmetric_activations,
        "reduce_range": reduce_range,
        "format": format_,
        "overrides": tuple(
            LayerOverride(layer, left_float=True)
            for layer in dict.fromkeys((*(exclude or ()), *(more or ()), *listed))
        ),
    }
    config = PtqConfig(**options)
    _check_suffix(output, config.framework)
    widths = None
    if (weight_bits, activation_bits) != (None, None):
        widths = (
            read_width("--weight-bits", weight_bits),
            read_width("--activation-bits", activation_bits),
        )
    if widths is None and range_ != "keep":
        raise BadConfigError(
            f"--range {range_} goes with other bits; give --weight-bits or --activation-bits too"
        )
    images = None
    _check_calibration(calibration_data, rows)
    if calibration_data is not None:
        if rows is None or not rows.seed:
            # Not the rows that others measure with.
            rows = replace(rows or RowWishes(), seed=calibration_seed + 1)
        spec = calibration_data
        if spec == "random" and calibration_images is not None:
            spec = f"random:{calibration_images}"
        images = load_samples(open_model(path), spec, rows)
    if images and calibration_images is None and len(images) < _USUAL_ROWS:
        config = replace(config, calibration_images=len(images))
    with progress_bar() as progress:
        if widths is not None:
            from quantscope.study.bits import quantize_with_bits

            result, _ = quantize_with_bits(
                path,
                output,
                config,
                weight_bits=widths[0],
                activation_bits=widths[1],
                ranges=range_,
                calibration=images,
                onnx_output=onnx,
                progress=progress,
            )
        elif config.framework == "torch":
            result = quantize_torch(
                path, output, config, calibration=images, onnx_output=onnx, progress=progress
            )
        else:
            result = quantize_onnx(path, output, config, calibration=images, progress=progress)
    agreement = None
    if result.onnx_path is not None:
        compared = images or load_sample()
        agreement = program_agreement(
            result.path, result.onnx_path, compared.take(min(_COMPARED_IMAGES, len(compared)))
        )
    _show(result, agreement, as_json=as_json)


def read_layers(path: Path) -> tuple[str, ...]:
    """Read the names of layers, one a line; what follows a # after a blank is a remark."""
    from quantscope.errors import BadConfigError
    from quantscope.files import read_bytes

    content = read_bytes(path, "a list of layers", most_bytes=1 << 20, kind=BadConfigError)
    try:
        lines = content.decode("utf-8").splitlines()
    except ValueError:
        raise BadConfigError(f"{path} is not a list of layers: it is not UTF-8 text") from None
    names = (line.strip() for line in lines)
    found = tuple(n.partition(" #")[0].strip() for n in names if n and not n.startswith("#"))
    if not found:
        raise BadConfigError(f"{path} names no layer; write one a line")
    return found


def read_width(option: str, text: str | None) -> int | None:
    """Read `4`, or `float` as None; 8 where nothing was said."""
    from quantscope.arithmetic import BIT_WIDTHS
    from quantscope.errors import BadConfigError

    if text is None:
        return 8
    if text.strip() == "float":
        return None
    if not text.strip().isdecimal() or int(text) not in BIT_WIDTHS:
        raise BadConfigError(f"{option} is {text!r}; give 2 to 8, 16 or float")
    return int(text)


def _check_calibration(spec: str | None, rows: "RowWishes | None") -> None:
    """Refuse test images, and wishes for rows that are not made."""
    from quantscope.data import RowWishes
    from quantscope.errors import BadConfigError

    if spec in ("sample", "full"):
        raise BadConfigError(
            f"--calibration-data {spec} names test images, which must not calibrate; leave it out "
            "for CIFAR-10's training images"
        )
    if spec is None and rows not in (None, RowWishes()):
        raise BadConfigError(
            "--shape, --size and the like say how the rows of --calibration-data are made; give "
            "that as well"
        )


def _framework(path: Path, asked: str | None) -> str:
    """Tell which framework quantizes the file, and refuse one that cannot."""
    from quantscope.errors import BadConfigError

    if path.suffix in (".pt", ".pth"):
        raise BadConfigError(
            f"{path.name} is an archive of PyTorch, which is not quantized here; give a float "
            f".onnx file, a float program saved with torch.export.save (.pt2), or ResNet8's "
            f".safetensors"
        )
    implied = _FRAMEWORKS.get(path.suffix)
    if asked and implied and asked != implied and asked in _FRAMEWORKS.values():
        raise BadConfigError(
            f"{path.name} is quantized with {implied}, but --framework says {asked}; torch takes "
            "float programs (.pt2) and ResNet8's .safetensors, onnxruntime takes .onnx"
        )
    return asked or implied or "onnxruntime"


def _check_suffix(output: Path, framework: str) -> None:
    """Refuse a suffix that the framework does not write; `Writes` allows those of both."""
    from quantscope.errors import BadConfigError

    suffix = {"onnxruntime": ".onnx", "torch": ".pt2"}[framework]
    if output.suffix.lower() != suffix:
        right = suffix + (" (and ONNX with --onnx FILE)" if framework == "torch" else "")
        raise BadConfigError(f"{framework} writes {right}; {output} has another suffix")


def _show(result: "Quantized", agreement: "Agreement | None", *, as_json: bool) -> None:
    from quantscope.report import quantization_view

    for warning in result.warnings:
        messages.print(f"quantscope: {warning}", markup=False)
    if as_json:
        compared = {"agreement": agreement.to_dict()} if agreement else {}
        emit_json(result.to_dict() | compared)
        return
    show(quantization_view(result, agreement))
