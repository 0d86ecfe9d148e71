"""Run `quantscope bits`: measure what the bits of weights and activations buy."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quantscope.cli.console import emit_json, messages, progress_bar, show, show_grid
from quantscope.cli.options import (
    THOUSAND,
    AnyModel,
    CalibrationData,
    DataOfThousand,
    Evenly,
    FloatModel,
    ImagesOfThousand,
    Json,
    MeasureOption,
    RangeOption,
    load_measure,
    stated_or_shipped,
)
from quantscope.cli.outputs import Writes, careful
from quantscope.cli.rows import load_range_samples, load_samples, takes_rows
from quantscope.errors import BadConfigError
from quantscope.plain_text import many

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from quantscope.data import RowWishes, Samples
    from quantscope.edit import Recipe
    from quantscope.model import Model
    from quantscope.progress import Progress
    from quantscope.quantize import PtqConfig
    from quantscope.study.bits import BitCurves, Estimate, Frontier

MOST_SECONDS = 600
"""The time beyond which a run is begun only where a person has said so."""


@careful
@takes_rows
def command(
    model: AnyModel,
    float_model: FloatModel = None,
    weights: Annotated[str, typer.Option(help="Widths such as 2-8 or 4,8,16.")] = "2-8",
    activations: Annotated[str, typer.Option(help="Widths such as 2-8 or 4,8,16.")] = "2-8",
    per_channel: Annotated[
        bool, typer.Option("--per-channel/--per-tensor", help="One scale for each output channel.")
    ] = True,
    calibration: Annotated[
        str | None, typer.Option(help="minmax, entropy or percentile. Default: minmax.")
    ] = None,
    calibration_images: Annotated[int, typer.Option(help="How many rows calibrate.")] = 256,
    calibration_data: CalibrationData = None,
    images: ImagesOfThousand = None,
    evenly: Evenly = False,
    data: DataOfThousand = None,
    rows: "RowWishes | None" = None,
    measure: MeasureOption = None,
    execution: Annotated[Literal["reference", "runtime"], stated_or_shipped(".")] = "reference",
    range_: RangeOption = "keep",
    out: Annotated[
        Path | None,
        typer.Option(help="A folder that keeps each cell: the same command goes on there."),
    ] = None,
    layers: Annotated[
        bool,
        typer.Option("--layers", help="Each tensor alone instead, at the widths of --weights."),
    ] = False,
    frontier: Annotated[
        Literal["size", "compute"] | None,
        typer.Option(
            help="Instead narrow one tensor at a time, down the widths of --weights, each the one "
            "that costs least for what it saves: bytes of weights, or products times bits."
        ),
    ] = None,
    recipes: Annotated[
        Path | None,
        typer.Option(help="With --frontier: a folder for a recipe of each point, step-NN.json."),
    ] = None,
    point: Annotated[
        int | None,
        typer.Option(help="With --frontier: the step whose model -o writes, and its recipe."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the model of --point, FILE.onnx."),
        Writes(".onnx"),
    ] = None,
    save_recipe: Annotated[
        Path | None,
        typer.Option(help="Write the edits of --point as a recipe, FILE.json."),
        Writes(".json"),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Also draw the map, as FILE.png or FILE.svg."),
        Writes(".png", ".svg"),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Go on though it takes longer than ten minutes.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure a network with every pair of widths for its weights and its activations.

    A float model is calibrated once, at 8 bits; the other widths keep its ranges, or --range
    chooses them anew.

    Float weights and float activations are the last row and column.

    Example: quantscope bits resnet8 --weights 2-8 --activations 4,6,8 --out bits/

    Example: quantscope bits resnet8 --frontier size --point 12 -o mixed.onnx
    """
    from quantscope.model import open_model
    from quantscope.quantize import PtqConfig
    from quantscope.report import bits_view
    from quantscope.study.bits import bit_curves, bit_map, walk_frontier

    if recipes is not None:
        _check_empty(recipes)
    _check_point(frontier, point, output, save_recipe)
    weight_bits, activation_bits = read_widths(weights), read_widths(activations)
    opened = open_model(model)
    against = opened if opened.is_float else float_model
    counted = load_measure(measure)
    chosen = load_samples(opened, data, rows, images=images, evenly=evenly, unless_given=THOUSAND)
    if calibration_data is not None and not opened.is_float and range_ == "keep":
        raise BadConfigError(
            f"{opened.name} is quantized already, and --range keep leaves its ranges; "
            "--calibration-data is for a float model, or for --range minmax or best"
        )
    with tempfile.TemporaryDirectory(prefix="quantscope-") as folder, progress_bar() as progress:
        base: Model | Path = opened
        seen: Samples | None = None
        if opened.is_float or range_ != "keep":
            seen = load_range_samples(opened, calibration_data, count=calibration_images)
        if opened.is_float:
            config = PtqConfig(
                activations="int8",
                calibration=calibration,  # type: ignore[arg-type]  # the config refuses others
                calibration_images=len(seen or ()),
                per_channel=per_channel,
            )
            base = _quantize(opened, Path(folder), config, seen, progress)
        shared: dict[str, Any] = {
            "float_model": against,
            "ranges": range_,
            "calibration": None if range_ == "keep" else seen,
            "execution": execution,
            "measure": counted,
            "agree": None if yes else _refuse_long,
            "progress": progress,
        }
        if frontier is not None:
            walk = walk_frontier(base, chosen, widths=weight_bits, saving=frontier, **shared)
            if point is not None:
                _check_step(walk, point)
                _write_point(walk, point, base, against, output, save_recipe)
            _show_frontier(walk, figure, recipes, as_json=as_json)
            return
        if layers:
            curves = bit_curves(base, chosen, widths=weight_bits, **shared)
            _show_curves(curves, figure, as_json=as_json)
            return
        result = bit_map(
            base, chosen, weights=weight_bits, activations=activation_bits, out=out, **shared
        )
    if figure is not None:
        from quantscope.report.figures import bit_heatmap

        _write(bit_heatmap(result), figure)
    if as_json:
        emit_json(result.to_dict())
        return
    show(bits_view(result), show_grid)


def _quantize(
    opened: "Model", folder: Path, config: "PtqConfig", seen: "Samples | None", progress: "Progress"
) -> Path:
    """Make the model of 8 bits that a float one becomes."""
    from quantscope.quantize import quantize_onnx

    path = opened.as_onnx("the map of bits").path
    output = folder / f"{path.stem}-8-bits.onnx"
    return quantize_onnx(path, output, config, calibration=seen, progress=progress).path


def _refuse_long(found: "Estimate") -> None:
    """Say how long it takes where that is long; it goes on with --yes alone."""
    if found.seconds <= MOST_SECONDS:
        return
    long = f"about {found.seconds / 60:,.0f} minutes here"
    raise BadConfigError(
        f"{many(found.networks, 'network')} on {many(found.samples, 'sample')} each take {long}; "
        f"give fewer widths or --images, or go on with --yes"
    )


def read_widths(text: str) -> list[int]:
    """Read `2-8`, `4,8,16` or both mixed."""
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = (each.strip() for each in part.partition("-"))
        if not low.isdecimal() or (dash and not high.isdecimal()) or len(low + high) > 4:
            raise BadConfigError(f"{text!r} is no list of widths; give some such as 2-8 or 4,8,16")
        ends = int(low), int(high or low)
        if ends[0] > ends[1]:
            raise BadConfigError(
                f"The widths {part.strip()} are out of order; give {ends[1]}-{ends[0]}"
            )
        found += range(ends[0], ends[1] + 1)
    return found


def _show_curves(result: "BitCurves", figure: Path | None, *, as_json: bool) -> None:
    from quantscope.report import curves_view
    from quantscope.report.figures import bit_curves_figure

    if figure is not None:
        _write(bit_curves_figure(result), figure)
    if as_json:
        emit_json(result.to_dict())
        return
    show(curves_view(result), show_grid)


def _check_point(
    frontier: str | None, point: int | None, output: Path | None, recipe: Path | None
) -> None:
    """Refuse a point without a walk or a file, and a file without a point, before any work."""
    if point is None:
        if output is not None or recipe is not None:
            name = "-o" if output is not None else "--save-recipe"
            raise BadConfigError(f"{name} writes a point of a --frontier; give its --point N too")
        return
    if frontier is None:
        raise BadConfigError("--point is a step of a walk; give --frontier size or compute too")
    if output is None and recipe is None:
        raise BadConfigError("--point writes a model or a recipe; give -o or --save-recipe too")
    if point < 0:
        raise BadConfigError(f"--point is a step of the walk, from 0 on, not {point}")


def _check_step(result: "Frontier", point: int) -> None:
    if point >= len(result.points):
        raise BadConfigError(
            f"The walk has no step {point}; its last one is {len(result.points) - 1}"
        )


def _write_point(
    result: "Frontier",
    point: int,
    base: "Model | Path",
    against: "Model | str | None",
    output: Path | None,
    save_recipe: Path | None,
) -> None:
    """Write one point's model, and the edits that make it of the model of 8 bits."""
    from quantscope.edit import Editor

    if output is not None:
        Editor(base, against).apply(result.points[point].edits).save(output)
        messages.print(f"Wrote {output}", markup=False)
    if save_recipe is not None:
        _recipe(result, point).save(save_recipe)
        messages.print(f"Wrote {save_recipe}", markup=False)


def _recipe(result: "Frontier", place: int) -> "Recipe":
    from quantscope.edit import Recipe

    point = result.points[place]
    return Recipe(
        base_digest=result.digest,
        edits=point.edits,
        note=f"{point.weight_bytes:,} bytes of weights, {result.measure} {point.score:.4g}",
        base_model=result.model,
    )


def _check_empty(folder: Path) -> None:
    """Refuse a folder that holds anything: what is there stays."""
    from quantscope.files import is_folder, is_there

    if is_there(folder) and (not is_folder(folder) or any(folder.iterdir())):
        raise BadConfigError(f"{folder} is not an empty folder; give a new one for the recipes")


def _show_frontier(
    result: "Frontier", figure: Path | None, recipes: Path | None, *, as_json: bool
) -> None:
    from quantscope.report import frontier_view
    from quantscope.report.figures import bit_frontier

    if recipes is not None:
        recipes.mkdir(parents=True, exist_ok=True)
        for place in range(len(result.points)):
            _recipe(result, place).save(recipes / f"step-{place:02}.json")
        messages.print(f"Wrote {len(result.points)} recipes into {recipes}", markup=False)
    if figure is not None:
        _write(bit_frontier(result), figure)
    if as_json:
        emit_json(result.to_dict())
        return
    show(frontier_view(result), show_grid)


def _write(drawn: "Figure", path: Path) -> None:
    from quantscope.files import write_whole
    from quantscope.report.figures import png_bytes, svg_bytes

    write_whole(path, png_bytes(drawn) if path.suffix.lower() == ".png" else svg_bytes(drawn))
    messages.print(f"Wrote {path}", markup=False)
