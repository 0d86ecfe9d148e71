"""Run `quantscope cure`: change a quantized model so that it loses less, and measure what helps."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quantscope.cli.console import emit_json, messages, progress_bar, show
from quantscope.cli.options import (
    FloatModelOrProgram,
    Json,
    LowerIsBetter,
    MeasureOption,
    QuantizedModel,
    load_measure,
    stated_or_shipped,
)
from quantscope.cli.outputs import Writes, careful
from quantscope.cli.rows import load_samples, takes_rows

if TYPE_CHECKING:
    from quantscope.cure import Course, CureFunction, RangeBy
    from quantscope.data import RowWishes, Samples
    from quantscope.edit import Edit
    from quantscope.model import Model

_USUAL_ROWS = 256


@careful
@takes_rows
def command(
    model: QuantizedModel,
    float_model: FloatModelOrProgram = None,
    leave_float: Annotated[
        list[str] | None,
        typer.Option(
            "--leave-float",
            metavar="WHAT",
            help="A LAYER, a block (stack3), an operator (Conv), or N: the N layers with weights "
            "that bring the outputs nearest, each measured alone. May be given again.",
        ),
    ] = None,
    more_bits: Annotated[
        int | None,
        typer.Option(
            help="Give what --leave-float names so many bits instead, 2 to 8 or 16 (ONNX)."
        ),
    ] = None,
    save_exclusions: Annotated[
        Path | None,
        typer.Option(help="Write the layers left float, FILE.txt for quantize --exclude-from."),
        Writes(".txt"),
    ] = None,
    equalization: Annotated[
        bool,
        typer.Option(
            "--equalization",
            help="Rescale channels between layers until their weights are as large on both sides.",
        ),
    ] = False,
    best_range: Annotated[
        bool,
        typer.Option("--best-range", help="Give tensors the ranges that cost least."),
    ] = False,
    range_of: Annotated[
        list[str] | None,
        typer.Option(
            help="Of a TENSOR, a LAYER, weights or activations only; may be given again. "
            "Default: all."
        ),
    ] = None,
    range_by: Annotated[
        Literal["mean-square", "effect"],
        typer.Option(
            help="mean-square: of the tensor's own values. effect: of the network's outputs; runs "
            "it for every range that is tried."
        ),
    ] = "mean-square",
    rounding: Annotated[
        bool,
        typer.Option(
            "--rounding",
            help="Choose which way each weight is rounded, so that its layer's outputs stay.",
        ),
    ] = False,
    bias_correction: Annotated[
        bool,
        typer.Option(
            "--bias-correction", help="Take the mean shift of every channel out of the biases."
        ),
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(
            help="What cures look at: calibration samples, FILE.npz or a folder of pictures. Left "
            "out: CIFAR-10's training images, where they fit."
        ),
    ] = None,
    images: Annotated[
        int | None,
        typer.Option(help="How many of them. Default: 256, or all of --data if it has fewer."),
    ] = None,
    test_data: Annotated[
        str | None,
        typer.Option(
            help="What scores are of: sample (1,000 bundled test images), full (10,000), FILE.npz, "
            "a folder of pictures, random or random:N. Left out: sample where it fits, else random."
        ),
    ] = None,
    test_images: Annotated[int | None, typer.Option(help="Only the first N rows of it.")] = None,
    rows: "RowWishes | None" = None,
    recipe: Annotated[
        Path | None, typer.Option(help="A recipe FILE.json: its edits are in force before.")
    ] = None,
    execution: Annotated[
        Literal["reference", "runtime"], stated_or_shipped(", of ONNX models.")
    ] = "reference",
    measure: MeasureOption = None,
    lower_is_better: LowerIsBetter = False,
    allow_same_data: Annotated[
        bool,
        typer.Option(
            "--allow-same-data", help="Measure even on the samples that the cures look at."
        ),
    ] = False,
    save_recipe: Annotated[
        Path | None,
        typer.Option(help="Write all edits and their effect as a recipe, FILE.json."),
        Writes(".json"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the cured model: FILE.onnx, or FILE.pt2."),
        Writes(".onnx", ".pt2"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Cure a quantized model by edits found from calibration samples, and measure what each brings.

    The cures are taken in the order in which --help lists them, each on what those before it made.

    Example: quantscope cure w4a8.onnx --rounding --bias-correction -o cured.onnx
    """
    from quantscope.cure import take_course
    from quantscope.edit import Editor
    from quantscope.errors import BadConfigError
    from quantscope.files import check_outputs
    from quantscope.model import open_model
    from quantscope.report import course_view

    counted = load_measure(measure, lower_is_better=lower_is_better)
    chosen = _choose(
        leave_float=leave_float,
        more_bits=more_bits,
        equalization=equalization,
        best_range=best_range,
        range_of=range_of,
        range_by=range_by,
        rounding=rounding,
        bias_correction=bias_correction,
    )
    if save_exclusions is not None and (not leave_float or more_bits is not None):
        raise BadConfigError("--save-exclusions writes the layers that --leave-float leaves float")
    opened = open_model(model)
    editor = Editor(opened, float_model)
    _check_kind(output, editor.suffix, opened.name)
    edits = () if recipe is None else _edits_of(recipe, opened)
    looked_at = _calibration(opened, data, images, rows)
    judged_by = load_samples(opened, test_data, rows, images=test_images)
    originals = [] if editor.original is None else [editor.original.path]
    outputs = [path for path in (output, save_recipe, save_exclusions) if path is not None]
    check_outputs(outputs, reads=[*opened.files, *originals])
    with progress_bar() as progress:
        course = take_course(
            editor,
            chosen,
            looked_at,
            judged_by,
            edits=edits,
            measure=counted,
            execution=execution,
            allow_same_samples=allow_same_data,
            progress=progress,
        )
    written = _write(course, opened, output, save_recipe, save_exclusions)
    if as_json:
        emit_json({**course.to_dict(), **written})
        return
    show(course_view(course))
    for path in outputs:
        messages.print(f"Wrote {path}", markup=False)


def _choose(
    *,
    leave_float: list[str] | None,
    more_bits: int | None,
    equalization: bool,
    best_range: bool,
    range_of: list[str] | None,
    range_by: str,
    rounding: bool,
    bias_correction: bool,
) -> "dict[str, CureFunction]":
    """Give the cures that were asked for, with their options, in the order of a course."""
    from functools import partial

    from quantscope.cure import CURES, choose_ranges
    from quantscope.errors import BadConfigError

    wanted = {
        "leave float": bool(leave_float),
        "equalization": equalization,
        "best range": best_range,
        "rounding": rounding,
        "bias correction": bias_correction,
    }
    chosen = {kind: CURES[kind] for kind, is_wanted in wanted.items() if is_wanted}
    if leave_float:
        chosen["leave float"] = _to_leave_float(leave_float, more_bits)
    elif more_bits is not None:
        raise BadConfigError("--more-bits is how many bits --leave-float gives; name layers there")
    if best_range:
        by: RangeBy = "effect" if range_by == "effect" else "mean square"
        chosen["best range"] = partial(choose_ranges, targets=tuple(range_of or ()), by=by)
    elif range_of or range_by != "mean-square":
        raise BadConfigError("--range-of and --range-by go with --best-range; give that as well")
    if not chosen:
        options = ", ".join(f"--{kind.replace(' ', '-')}" for kind in wanted)
        raise BadConfigError(f"No cure is named; give one or more of: {options}")
    return chosen


def _edits_of(recipe: Path, model: "Model") -> "tuple[Edit, ...]":
    """Load the edits that are in force before; a recipe for another model is refused."""
    from quantscope.edit import Recipe
    from quantscope.errors import BadConfigError

    loaded = Recipe.load(recipe)
    if loaded.base_digest != model.digest:
        raise BadConfigError(
            f"{recipe} is for another model ({loaded.base_digest[:12]}), and {model.name} is "
            f"{model.digest[:12]}"
        )
    return loaded.edits


def _write(
    course: "Course",
    model: "Model",
    output: Path | None,
    save_recipe: Path | None,
    save_exclusions: Path | None,
) -> dict[str, Any]:
    """Write what was asked for, and say what."""
    from quantscope.cure import exclusion_list
    from quantscope.edit import Recipe
    from quantscope.files import write_whole

    written: dict[str, Any] = {}
    if output is not None:
        written["output"] = {"path": str(output), "sha256": course.applied.save(output)}
    if save_recipe is not None:
        Recipe(
            base_digest=model.digest,
            edits=course.edits,
            note="; ".join(step.cure.explanation for step in course.steps),
            effect=course.steps[-1].in_all.to_dict(),
            base_model=model.name,
        ).save(save_recipe)
        written["recipe"] = str(save_recipe)
    if save_exclusions is not None:
        # A course without this cure has raised, or says that it did not apply.
        text = "".join(exclusion_list(s.cure) for s in course.steps if s.cure.kind == "leave float")
        write_whole(save_exclusions, (text or "# no layer is left float\n").encode())
        written["exclusions"] = str(save_exclusions)
    return written


def _to_leave_float(wanted: list[str], bits: int | None) -> "CureFunction":
    """Read names of what to leave float, and at most one number of layers."""
    from functools import partial

    from quantscope.cure import leave_float
    from quantscope.errors import BadConfigError

    numbers = [int(text) for text in wanted if text.isdecimal()]
    if len(numbers) > 1:
        raise BadConfigError(f"--leave-float has two numbers of layers: {numbers[0]}, {numbers[1]}")
    targets = tuple(text for text in wanted if not text.isdecimal())
    return partial(leave_float, targets=targets, most=numbers[0] if numbers else None, bits=bits)


def _calibration(
    model: "Model", data: str | None, images: int | None, rows: "RowWishes | None"
) -> "Samples":
    """Load the samples that cures look at; made-up ones only where they are asked for."""
    from quantscope.data import calibration_set, takes_cifar10
    from quantscope.errors import BadConfigError, BadDataError

    if data is not None:
        return load_samples(model, data, rows, images=images, unless_given=_USUAL_ROWS)
    if not takes_cifar10(model):
        raise BadConfigError(
            f"{model.name} is cured by looking at calibration samples; give them with --data "
            f"FILE.npz or a folder of pictures (random says little of real ones)"
        )
    if images is not None and images < 1:
        raise BadDataError(f"--images is {images}; give 1 or more")
    return calibration_set(_USUAL_ROWS if images is None else images)


def _check_kind(output: Path | None, suffix: str, model: str) -> None:
    """Refuse a suffix other than the one that the edited model is written with."""
    from quantscope.errors import BadConfigError

    if output is not None and output.suffix != suffix:
        raise BadConfigError(
            f"Cured, {model} is a {suffix} file again; {output} has another suffix"
        )
