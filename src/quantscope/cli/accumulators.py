"""`quantscope accumulators`"""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from quantscope.cli.console import console, emit_json, progress_bar
from quantscope.cli.options import Data, Int8Kernels, Json, QuantizedOnnx, load_images
from quantscope.cli.outputs import careful
from quantscope.plain_text import many

if TYPE_CHECKING:
    from quantscope.run import Accumulators, LayerAccumulator, SaturationPrediction

_IMAGES = 100


@careful
def command(
    model: QuantizedOnnx,
    data: Data = "sample",
    images: Annotated[
        int | None, typer.Option(help="How many images to measure over; 100 unless given.")
    ] = None,
    predict: Annotated[
        bool,
        typer.Option(
            "--predict-saturation",
            help="Also run the network with modelled x86 kernels that saturate 16-bit sums.",
        ),
    ] = False,
    int8_kernels: Int8Kernels = None,
    as_json: Json = False,
) -> None:
    """Bits that each layer's accumulator needs: at worst, and as measured over images.

    Example: quantscope accumulators resnet8-uint8 --images 100 --predict-saturation
    """
    from quantscope.run import accumulators, predict_saturation

    chosen = load_images(data, images, unless_given=_IMAGES)
    with progress_bar() as progress:
        found = accumulators(model, chosen, progress=progress)
        prediction = None
        if predict:
            prediction = predict_saturation(
                model, chosen, int8_kernels=int8_kernels, progress=progress
            )
    if as_json:
        result: dict[str, Any] = found.to_dict()
        if prediction is not None:
            result["saturation"] = prediction.to_dict()
        emit_json(result)
        return
    _show(found)
    if prediction is not None:
        _show_prediction(prediction)


def _show(found: "Accumulators") -> None:
    console.print(
        f"{found.model}  accumulators over {many(found.images, 'image')} of {found.data}",
        markup=False,
        style="bold",
    )
    table = Table(title="bits that the accumulator needs", title_justify="left", box=None)
    for name in ("layer", "types"):
        table.add_column(name, no_wrap=True)
    for name in ("terms", "worst", "measured", "bias", "saturable pairs"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in found.layers:
        types = row.x_dtype if row.w_dtype is None else f"{row.x_dtype} × {row.w_dtype}"
        table.add_row(
            row.layer,
            types,
            str(row.terms),
            "–" if row.worst_bits is None else str(row.worst_bits),
            str(row.measured_bits),
            "–" if row.bias_bits is None else str(row.bias_bits),
            "–" if row.saturable_pairs is None else f"{row.saturable_pairs:,} of {row.pairs:,}",
        )
    console.print(table)
    console.print(
        "worst: any input; bias: the largest one alone; saturable pairs: neighbouring weights "
        "whose products with uint8 inputs can leave 16 bits on x86 without VNNI",
        markup=False,
        style="dim",
    )
    for row in found.layers:
        for line in _warnings(row):
            console.print(line, markup=False, style="yellow")
    reasons = {
        why: [name for name, other in found.skipped if other == why] for _, why in found.skipped
    }
    for why, names in reasons.items():
        console.print(f"left out: {', '.join(names)}: {why}", markup=False, style="dim")


def _warnings(row: "LayerAccumulator") -> list[str]:
    lines = []
    if row.can_overflow_int32:
        lines.append(f"{row.layer} can overflow int32: its worst case needs {row.worst_bits} bits")
    if row.bias_near_overflow:
        lines.append(f"The bias of {row.layer} needs {row.bias_bits} of int32's 32 bits")
    if row.bias_at_limit:
        lines.append(f"{row.bias_at_limit} biases of {row.layer} lie at int32's end: clipped")
    return lines


def _show_prediction(found: "SaturationPrediction") -> None:
    console.print(
        f"\non x86 without VNNI, {many(found.images, 'image')}: predicted accuracy "
        f"{found.predicted_accuracy:.2%}, without saturation {found.exact_accuracy:.2%}, "
        f"{many(len(found.changed), 'image')} in another class",
        markup=False,
        style="bold",
    )
    for row in found.layers:
        if row.saturated_pairs:
            console.print(
                f"  {row.layer}: {row.saturated_pairs:,} of {row.pairs:,} pair sums saturate, "
                f"{row.changed_outputs / row.outputs:.2%} of its outputs change, "
                f"by up to {row.largest_steps} steps",
                markup=False,
            )
    if not any(row.saturated_pairs for row in found.layers):
        console.print("  no pair sum saturates", markup=False)
    if found.float_layers:
        names = ", ".join(found.float_layers)
        console.print(f"  run as float, where nothing saturates: {names}", markup=False)
    if found.equal_rows is None:
        console.print("  this CPU does not saturate, so there is nothing to compare", markup=False)
    else:
        console.print(
            f"  onnxruntime on this CPU: {found.measured_accuracy:.2%}; the prediction has its "
            f"scores bit for bit for {found.equal_rows:,} of {many(found.images, 'image')}",
            markup=False,
        )
