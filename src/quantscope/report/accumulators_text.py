"""Say how many bits accumulators need, and what saturation would do, as lines and a table."""

from collections.abc import Iterator

from quantscope.arithmetic import bits_of
from quantscope.plain_text import many
from quantscope.report.table import Column, Line, Table
from quantscope.run.integers import Accumulators, LayerAccumulator, SaturationPrediction


def accumulators_view(found: Accumulators) -> Iterator[Line | Table]:
    """Give a table of the layers, what they are in danger of, and which were left out."""
    yield Line(
        f"{found.model}  accumulators over {many(found.images, 'image')} of {found.data}", "strong"
    )
    yield accumulator_table(found)
    yield Line(
        "worst: any input; bias: the largest one alone; saturable pairs: neighbouring weights "
        "whose products with uint8 inputs can leave 16 bits on x86 without VNNI",
        "faint",
    )
    for row in found.layers:
        yield from (Line(text, "warning") for text in _warnings(row))
    # Layers left out for the same reason share a line.
    reasons = {
        why: [name for name, other in found.skipped if other == why] for _, why in found.skipped
    }
    for why, names in reasons.items():
        yield Line(f"left out: {', '.join(names)}: {why}", "faint")


def accumulator_table(found: Accumulators) -> Table:
    """Make a table with a row for each layer that adds products."""
    numbers = ("terms", "worst", "measured", "bias", "saturable pairs")
    return Table(
        "bits that the accumulator needs",
        (
            Column("layer", kind="name"),
            Column("types", kind="name"),
            *(Column(heading, right=True) for heading in numbers),
        ),
        tuple(map(_cells, found.layers)),
    )


def _cells(row: LayerAccumulator) -> tuple[str, ...]:
    return (
        row.layer,
        _types(row),
        str(row.terms),
        "–" if row.worst_bits is None else str(row.worst_bits),
        str(row.measured_bits),
        "–" if row.bias_bits is None else str(row.bias_bits),
        "–" if row.saturable_pairs is None else f"{row.saturable_pairs:,} of {row.pairs:,}",
    )


def _types(row: LayerAccumulator) -> str:
    """Name the types of both sides, with the bits in use where they are fewer."""
    sides = [(row.x_dtype, row.x_bits), (row.w_dtype, row.w_bits)]
    return " × ".join(
        dtype if bits == bits_of(dtype) else f"{dtype} ({bits} of {bits_of(dtype)} bits)"
        for dtype, bits in sides
        if dtype is not None and bits is not None
    )


def _warnings(row: LayerAccumulator) -> Iterator[str]:
    """Give a sentence for each way in which the layer's int32 accumulator is at risk."""
    if row.can_overflow_int32:
        yield f"{row.layer} can overflow int32: its worst case needs {row.worst_bits} bits"
    if row.bias_near_overflow:
        yield f"The bias of {row.layer} needs {row.bias_bits} of int32's 32 bits"
    if row.bias_at_limit:
        yield f"{row.bias_at_limit} biases of {row.layer} lie at int32's end: clipped"


def saturation_view(found: SaturationPrediction) -> Iterator[Line]:
    """Say what kernels that saturate would do to the output, and in which layers."""
    yield Line()
    many_samples = many(found.images, found.sample_word)
    if found.predicted_accuracy is not None and found.exact_accuracy is not None:
        cost = (
            f"predicted accuracy {found.predicted_accuracy:.2%}, without saturation "
            f"{found.exact_accuracy:.2%}, {many(len(found.changed), found.sample_word)} in another "
            f"class"
        )
    elif found.sqnr_db is None:
        cost = "saturation is predicted to change no output"
    else:
        cost = (
            f"saturation is predicted to leave the output an SQNR of {found.sqnr_db:.2f} dB, and "
            f"to change that of {many(len(found.changed), found.sample_word)}"
        )
    yield Line(f"on x86 without VNNI, {many_samples}: {cost}", "strong")
    for row in found.layers:
        if row.saturated_pairs:
            yield Line(
                f"  {row.layer}: {row.saturated_pairs:,} of {row.pairs:,} pair sums saturate, "
                f"{row.changed_outputs / row.outputs:.2%} of its outputs change, "
                f"by up to {row.largest_steps} steps"
            )
    if not any(row.saturated_pairs for row in found.layers):
        yield Line("  no pair sum saturates")
    if found.float_layers:
        yield Line(f"  run as float, where nothing saturates: {', '.join(found.float_layers)}")
    if found.equal_rows is None:
        yield Line("  this CPU does not saturate, so there is nothing to compare")
    else:
        here = "" if found.measured_accuracy is None else f"{found.measured_accuracy:.2%}; "
        yield Line(
            f"  onnxruntime on this CPU: {here}the prediction has its "
            f"scores bit for bit for {found.equal_rows:,} of {many_samples}"
        )
