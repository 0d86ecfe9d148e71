"""Define the options that several commands have, each once: its name, its type and its help.

A default stands in the command's signature, as for any parameter. A command whose option means
something else has its own, beside its other options.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from quantscope.run import Measure

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")]

AnyModel = Annotated[str, typer.Argument(help="A model file, or a bundled one: resnet8.")]
QuantizedOnnx = Annotated[str, typer.Argument(help="A quantized ONNX file, or a bundled model.")]
QuantizedModel = Annotated[
    str, typer.Argument(help="A quantized ONNX file or PT2E program (.pt2), or a bundled model.")
]
FloatModel = Annotated[
    str | None,
    typer.Option("--float", help="The float model; bundled quantized models know theirs."),
]
FloatModelOrProgram = Annotated[
    str | None,
    typer.Option(
        "--float",
        help="The float model, for a program a .pt2 or .safetensors file; models that say what "
        "they were made from need none.",
    ),
]
MeasureOption = Annotated[
    str | None,
    typer.Option(
        "--measure",
        help="top1 (against labels), agreement (with the float model), signal (SQNR of the "
        "outputs), noise (the same as a share of the signal), or FILE.py:FUNCTION, your own code; "
        "left out, what the data allow.",
    ),
]
LowerIsBetter = Annotated[
    bool, typer.Option("--lower-is-better", help="The numbers of FILE.py:FUNCTION are errors.")
]
Raw = Annotated[bool, typer.Option("--raw", help="Every node as the file has it (ONNX).")]

_KINDS_OF_DATA = (
    "FILE.npz (an array for each input by its name, labels or not), a folder of pictures (one "
    "sub-folder a class, or flat), random or random:N. Left out: sample where it fits, else random."
)
Data = Annotated[
    str | None,
    typer.Option(help=f"sample (1,000 bundled test images), full (10,000), {_KINDS_OF_DATA}"),
]
Images = Annotated[int | None, typer.Option(help="Only the first N rows.")]

# What takes long for each row is done for a thousand unless more are asked for.
THOUSAND = 1000
DataOfThousand = Annotated[
    str | None,
    typer.Option(
        help="sample (1,000 bundled test images), full (10,000, of which 1,000 are used unless "
        f"--images says more), {_KINDS_OF_DATA}"
    ),
]
ImagesOfThousand = Annotated[
    int | None,
    typer.Option(
        help="Only the first N rows; not given, the first 1,000 or all if there are fewer."
    ),
]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="[NAME=]1x3x320x320",
        help="An input's shape, where the model leaves it open, for random rows and pictures; may "
        "be given again.",
    ),
]
PictureSize = Annotated[
    str | None,
    typer.Option(
        "--size",
        metavar="HEIGHTxWIDTH",
        help="Of pictures: they are resized to cover it, and its middle is cut out.",
    ),
]
PictureMean = Annotated[
    str | None,
    typer.Option("--mean", metavar="R,G,B", help="Of pictures: taken away after --scale."),
]
PictureStd = Annotated[
    str | None, typer.Option("--std", metavar="R,G,B", help="Of pictures: divided by at last.")
]
PictureScale = Annotated[
    str | None,
    typer.Option(
        "--scale", metavar="NUMBER", help="Of pictures: pixels 0 to 255 times this, usually 1/255."
    ),
]
PictureLayoutOption = Annotated[
    Literal["nchw", "nhwc"] | None,
    typer.Option("--layout", help="Of pictures; left out, what the input's shape says."),
]
_CHANNELS_HELP = "Of pictures; left out, rgb, or gray for one channel."
PictureChannels = Annotated[
    Literal["rgb", "bgr", "gray"] | None,
    typer.Option("--channels", help=_CHANNELS_HELP),
]
# Where --channels are those of tensors.
PictureChannelsBeside = Annotated[
    Literal["rgb", "bgr", "gray"] | None, typer.Option("--picture-channels", help=_CHANNELS_HELP)
]
Evenly = Annotated[
    bool,
    typer.Option(
        "--evenly",
        help="Of --images: N rows evenly from all, each class in its proportion, as the page takes "
        "them.",
    ),
]
RandomSeed = Annotated[int, typer.Option("--seed", help="Of random rows.")]
RangeOption = Annotated[
    Literal["keep", "minmax", "best"],
    typer.Option(
        "--range",
        help="With other bits: the ranges of 8 bits stay (keep), span all values (minmax), or cost "
        "the least mean square error (best), both by the calibration rows.",
    ),
]
CalibrationData = Annotated[
    str | None,
    typer.Option(
        help="FILE.npz, a folder of pictures, random or random:N to calibrate with, instead of "
        "CIFAR-10's training images."
    ),
]

Int8Kernels = Annotated[
    bool | None,
    typer.Option(
        "--int8-kernels/--no-int8-kernels",
        help="Set onnxruntime's session.qdqisint8allowed; left out, the platform decides.",
    ),
]
Batch = Annotated[int | None, typer.Option(help="Images executed at once.")]


def stated_or_shipped(limits: str) -> Any:
    """Give --execution; `limits` ends its help with what the command cannot do in runtime."""
    return typer.Option(
        help="reference: the arithmetic that the file states. runtime: the fused kernels that ship"
        + limits
    )


def load_measure(spec: str | None, *, lower_is_better: bool = False) -> "Measure | None":
    """Find what --measure names; None where it is left out."""
    from quantscope.errors import BadConfigError
    from quantscope.run import find_measure

    if spec is None:
        if lower_is_better:
            raise BadConfigError("--lower-is-better goes with --measure FILE.py:FUNCTION")
        return None
    return find_measure(spec, lower_is_better=lower_is_better)
