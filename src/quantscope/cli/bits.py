"""Run `quantscope bits`: measure what the bits of weights and activations buy."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from quantscope.cli.console import emit_json, messages, progress_bar, show, show_grid
from quantscope.cli.options import (
    THOUSAND,
    AnyModel,
    CalibrationData,
    DataOfThousand,
    FloatModel,
    ImagesOfThousand,
    Json,
    MeasureOption,
    load_measure,
    stated_or_shipped,
)
from quantscope.cli.outputs import Writes, careful
from quantscope.cli.rows import load_samples, takes_rows
from quantscope.errors import BadConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from quantscope.data import RowWishes
    from quantscope.model import Model
    from quantscope.progress import Progress
    from quantscope.study.bits import BitCurves, Frontier


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
    data: DataOfThousand = None,
    rows: "RowWishes | None" = None,
    measure: MeasureOption = None,
    execution: Annotated[Literal["reference", "runtime"], stated_or_shipped(".")] = "reference",
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
    figure: Annotated[
        Path | None,
        typer.Option(help="Also draw the map, as FILE.png or FILE.svg."),
        Writes(".png", ".svg"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure a network with every pair of widths for its weights and its activations.

    A float model is calibrated once, at 8 bits; the other widths keep its ranges.

    Float weights and float activations are the last row and column.

    Example: quantscope bits resnet8 --weights 2-8 --activations 4,6,8 --out bits/
    """
    from quantscope.model import open_model
    from quantscope.report import bits_view
    from quantscope.study.bits import bit_curves, bit_map, walk_frontier

    if recipes is not None:
        _check_empty(recipes)
    weight_bits, activation_bits = read_widths(weights), read_widths(activations)
    opened = open_model(model)
    against = opened if opened.is_float else float_model
    counted = load_measure(measure)
    chosen = load_samples(opened, data, rows, images=images, unless_given=THOUSAND)
    with tempfile.TemporaryDirectory(prefix="quantscope-") as folder, progress_bar() as progress:
        base: Model | Path = opened
        if opened.is_float:
            options = _Calibration(per_channel, calibration, calibration_images, calibration_data)
            base = options.quantize(opened, Path(folder), progress)
        if frontier is not None:
            walk = walk_frontier(
                base,
                chosen,
                float_model=against,
                widths=weight_bits,
                saving=frontier,
                execution=execution,
                measure=counted,
                progress=progress,
            )
            _show_frontier(walk, figure, recipes, as_json=as_json)
            return
        if layers:
            curves = bit_curves(
                base,
                chosen,
                float_model=against,
                widths=weight_bits,
                execution=execution,
                measure=counted,
                progress=progress,
            )
            _show_curves(curves, figure, as_json=as_json)
            return
        result = bit_map(
            base,
            chosen,
            float_model=against,
            weights=weight_bits,
            activations=activation_bits,
            execution=execution,
            measure=counted,
            out=out,
            progress=progress,
        )
    if figure is not None:
        from quantscope.report.figures import bit_heatmap

        _write(bit_heatmap(result), figure)
    if as_json:
        emit_json(result.to_dict())
        return
    show(bits_view(result), show_grid)


class _Calibration:
    """How a float model becomes the one of 8 bits."""

    def __init__(
        self, per_channel: bool, method: str | None, images: int, data: str | None
    ) -> None:
        self.per_channel, self.method, self.images, self.data = per_channel, method, images, data

    def quantize(self, opened: "Model", folder: Path, progress: "Progress") -> Path:
        from quantscope.data import load
        from quantscope.quantize import PtqConfig, quantize_onnx

        path = opened.as_onnx("the map of bits").path
        config = PtqConfig(
            activations="int8",
            calibration=self.method,  # type: ignore[arg-type]  # the config refuses what it is not
            calibration_images=self.images,
            per_channel=self.per_channel,
        )
        samples = None if self.data is None else load(self.data, model=opened)
        output = folder / f"{path.stem}-8-bits.onnx"
        return quantize_onnx(path, output, config, calibration=samples, progress=progress).path


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


def _check_empty(folder: Path) -> None:
    """Refuse a folder that holds anything: what is there stays."""
    from quantscope.files import is_folder, is_there

    if is_there(folder) and (not is_folder(folder) or any(folder.iterdir())):
        raise BadConfigError(f"{folder} is not an empty folder; give a new one for the recipes")


def _show_frontier(
    result: "Frontier", figure: Path | None, recipes: Path | None, *, as_json: bool
) -> None:
    from quantscope.edit import Recipe
    from quantscope.report import frontier_view
    from quantscope.report.figures import bit_frontier

    if recipes is not None:
        recipes.mkdir(parents=True, exist_ok=True)
        for place, point in enumerate(result.points):
            note = f"{point.weight_bytes:,} bytes of weights, {result.measure} {point.score:.4g}"
            recipe = Recipe(
                base_digest=result.digest, edits=point.edits, note=note, base_model=result.model
            )
            recipe.save(recipes / f"step-{place:02}.json")
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
