"""Run `quantscope sensitivity`: rank the layers by what their quantization costs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quantscope.cli.console import emit_json, messages, progress_bar, show, terminal_width
from quantscope.cli.options import (
    THOUSAND,
    Batch,
    DataOfThousand,
    Evenly,
    FloatModel,
    ImagesOfThousand,
    Int8Kernels,
    Json,
    LowerIsBetter,
    MeasureOption,
    QuantizedOnnx,
    load_measure,
    stated_or_shipped,
)
from quantscope.cli.outputs import Writes, careful
from quantscope.cli.rows import load_samples, takes_rows
from quantscope.errors import BadConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from quantscope.data import RowWishes, Samples
    from quantscope.model import Model
    from quantscope.study.sensitivity import RowMode


@careful
@takes_rows
def command(
    model: QuantizedOnnx,
    float_model: FloatModel = None,
    mode: Annotated[
        Literal["disable", "enable", "both"] | None,
        typer.Option(
            help="disable: each layer's quantization off in the quantized network. "
            "enable: on alone in the float one. Default: disable; with --pairs enable."
        ),
    ] = None,
    pairs: Annotated[
        bool,
        typer.Option("--pairs", help="What every two layers cost together beyond alone, instead."),
    ] = False,
    shapley: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Every layer's fair share of the loss over N orders, instead."
        ),
    ] = None,
    layer: Annotated[
        list[str] | None,
        typer.Option(help="With --pairs or --shapley: only this layer; may be given again."),
    ] = None,
    seed_of_orders: Annotated[int, typer.Option(help="With --shapley: what draws the orders.")] = 0,
    yes: Annotated[
        bool, typer.Option("--yes", help="Start what may take longer than ten minutes.")
    ] = False,
    images: ImagesOfThousand = None,
    evenly: Evenly = False,
    data: DataOfThousand = None,
    rows: "RowWishes | None" = None,
    execution: Annotated[
        Literal["reference", "runtime"], stated_or_shipped(" (with --mode disable).")
    ] = "reference",
    measure: MeasureOption = None,
    lower_is_better: LowerIsBetter = False,
    int8_kernels: Int8Kernels = None,
    batch: Batch = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Also draw the ranking, as FILE.png or FILE.svg."),
        Writes(".png", ".svg"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Rank the layers by what their quantization costs the whole network.

    A layer is switched with its weight, bias and output; the ranking is by SQNR, or by --measure.

    --pairs shows which layers compensate or aggravate each other, --shapley shares the loss out.

    Example: quantscope sensitivity resnet8-int8 --images 200
    """
    from quantscope.model import open_model
    from quantscope.report import sensitivity_lines
    from quantscope.study.sensitivity import sensitivity

    _check_together(mode, execution, layer, pairs=pairs, shapley=shapley is not None)
    counted = load_measure(measure, lower_is_better=lower_is_better)
    opened = open_model(model)
    chosen = load_samples(opened, data, rows, images=images, evenly=evenly, unless_given=THOUSAND)
    if pairs or shapley is not None:
        common = {
            "float_model": float_model,
            "measure": counted,
            "layers": layer,
            "int8_kernels": int8_kernels,
            "batch": batch,
        } | ({"most_seconds": None} if yes else {})
        if shapley is None:
            _show_pairs(opened, chosen, mode, execution, common, figure, as_json=as_json)
        else:
            common["seed"] = seed_of_orders
            _show_shapley(opened, chosen, shapley, common, figure, as_json=as_json)
        return
    with progress_bar() as progress:
        result = sensitivity(
            opened,
            chosen,
            float_model=float_model,
            measure=counted,
            mode=mode or "disable",
            execution=execution,
            int8_kernels=int8_kernels,
            batch=batch,
            progress=progress,
        )
    if figure is not None:
        from quantscope.report.figures import sensitivity_ranking

        _write(sensitivity_ranking(result), figure)
    if as_json:
        emit_json(result.to_dict())
        return
    show(sensitivity_lines(result, terminal_width()))


def _check_together(
    mode: str | None, execution: str, layer: list[str] | None, *, pairs: bool, shapley: bool
) -> None:
    if pairs and shapley:
        raise BadConfigError("--pairs and --shapley are two questions; ask one at a time")
    if layer and not (pairs or shapley):
        raise BadConfigError("--layer goes with --pairs or --shapley; a ranking is of all layers")
    if pairs and mode == "both":
        raise BadConfigError("--pairs takes --mode enable or --mode disable, one at a time")
    if shapley and mode is not None:
        raise BadConfigError("--shapley quantizes the layers in all orders, so it has no --mode")
    if shapley and execution == "runtime":
        raise BadConfigError(
            "--shapley has no runtime execution: quantized layers between float ones run no "
            "integer kernel; use --execution reference"
        )


def _show_pairs(
    model: "Model",
    samples: "Samples",
    mode: Any,
    execution: Literal["reference", "runtime"],
    common: dict[str, Any],
    figure: Path | None,
    *,
    as_json: bool,
) -> None:
    from quantscope.report import interactions_lines
    from quantscope.report.figures import pair_matrix
    from quantscope.study.interactions import interactions

    # In runtime there is nothing but to switch off what runs.
    usual: RowMode = "disable" if execution == "runtime" else "enable"
    with progress_bar() as progress:
        result = interactions(
            model, samples, mode=mode or usual, execution=execution, progress=progress, **common
        )
    if figure is not None:
        _write(pair_matrix(result), figure)
    if as_json:
        emit_json(result.to_dict())
        return
    show(interactions_lines(result, terminal_width()))


def _show_shapley(
    model: "Model",
    samples: "Samples",
    orders: int,
    common: dict[str, Any],
    figure: Path | None,
    *,
    as_json: bool,
) -> None:
    from quantscope.report import shapley_lines
    from quantscope.report.figures import shapley_shares
    from quantscope.study.interactions import shapley

    with progress_bar() as progress:
        result = shapley(model, samples, orders, progress=progress, **common)
    if figure is not None:
        _write(shapley_shares(result), figure)
    if as_json:
        emit_json(result.to_dict())
        return
    show(shapley_lines(result, terminal_width()))


def _write(drawn: "Figure", path: Path) -> None:
    from quantscope.files import write_whole
    from quantscope.report.figures import png_bytes, svg_bytes

    write_whole(path, png_bytes(drawn) if path.suffix.lower() == ".png" else svg_bytes(drawn))
    messages.print(f"Wrote {path}", markup=False)
