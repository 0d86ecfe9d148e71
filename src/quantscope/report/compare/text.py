"""Show a comparison as text: what agrees, where errors are born, what stands out."""

from collections.abc import Iterator

from quantscope.plain_text import printable
from quantscope.report.evaluate_text import deviation_table
from quantscope.report.table import Column, Table
from quantscope.report.wording import format_rounded, origin_text
from quantscope.run.compare import (
    BlockErrors,
    ChannelComparison,
    Comparison,
    TensorComparison,
    flag_tensors,
    reading,
    usual,
)


def comparison_lines(result: Comparison, width: int | None = None) -> Iterator[str]:
    """Write the agreement, the tables, what was not compared and what stands out."""
    yield origin_text(result)
    yield _agreement(result)
    if result.outputs and (result.output is None or len(result.outputs) > 1):
        yield ""
        table = deviation_table(result.outputs, result.sample_word)
        yield "outputs against the float model's"
        yield from table.lines(width)
    for table in comparison_text_tables(result):
        yield ""
        yield table.title
        yield from table.lines(width)
    missing = [*result.unpaired, *result.unseen]
    if missing:
        yield ""
        yield "not compared"
        yield from (f"  {printable(t.name)}: {t.reason}" for t in missing)
    found = reading(result)
    yield ""
    if normal := usual(result):
        yield normal
    yield "what stands out" if found else "nothing stands out"
    yield from (f"  {printable(sentence)}" for sentence in found)


def channel_lines(
    result: Comparison, tensor: TensorComparison, width: int | None = None
) -> Iterator[str]:
    """Write one tensor's channels, a row each."""
    yield origin_text(result)
    yield ""
    if not tensor.channels:
        yield f"{printable(tensor.name)} has no channels that were compared"
        return
    yield (
        f"channels of {printable(tensor.name)}: SQNR in dB of the network up to here and of the "
        "quantizer alone (local), float values beyond its range (clipped), RMSE in steps, then the "
        "ends, mean and deviation of the float values"
    )
    headings = ("channel", "SQNR", "local", "clipped", "RMSE", "least", "largest", "mean", "std")
    spare = {"local": 1, "clipped": 2, "RMSE": 3}
    columns = tuple(Column(h, right=True, spare=spare.get(h, 0)) for h in headings)
    yield from Table("", columns, tuple(map(_channel, tensor.channels))).lines(width)
    if tensor.blocks is not None:
        yield ""
        yield from _worst_blocks(tensor.blocks).lines(width)


def _worst_blocks(blocks: BlockErrors) -> Table:
    """List the blocks, each with a scale of its own, in which rounding left least of the weight."""
    headings = ("channel", "block", "SQNR", "RMSE", "range used")
    rows = (
        (
            str(block.channel),
            str(block.block),
            _number(block.sqnr_db, ".1f"),
            _number(block.rmse_steps, ".2f"),
            f"{block.used_share_of_range:.0%}",
        )
        for block in blocks.worst
    )
    title = f"the blocks of lowest SQNR of {blocks.sqnr_db.size}, RMSE in steps of their own"
    return Table(title, tuple(Column(h, right=True) for h in headings), tuple(rows))


def _channel(channel: ChannelComparison) -> tuple[str, ...]:
    values = channel.float_min, channel.float_max, channel.float_mean, channel.float_std
    return (
        str(channel.channel),
        "exact" if channel.rmse == 0 else _number(channel.sqnr_db, ".1f"),
        "exact" if channel.local_rmse_steps == 0 else _number(channel.local_sqnr_db, ".1f"),
        _clipped(channel),
        _number(channel.rmse_steps, ".2f"),
        *(_number(value, ".4g") for value in values),
    )


def _number(value: float | None, how: str) -> str:
    return "–" if value is None else format(value, how)


def _agreement(result: Comparison) -> str:
    output = result.output
    if output is None:
        return f"no classes to compare: {result.no_output}"
    kl = "not finite" if output.kl_nats is None else f"{output.kl_nats:.3g} nats"
    right = f" ({len(output.gained)} now right, {len(output.lost)} now wrong)"
    return (
        f"same class for {output.class_agreement:.2%}, {len(output.changed)} changed"
        f"{right if output.has_labels else ''}; "
        f"KL of the {output.kl_of} {kl}"
    )


def comparison_text_tables(result: Comparison) -> Iterator[Table]:
    """List activations, then constants, with a `!` before what stands out."""
    marked = flag_tensors(result)
    kernel = result.execution == "runtime"
    headings = ("SQNR", "local", "clipped", "RMSE")
    shares = ["inherited", "weights", "rounding", "clipping", *(["kernel"] if kernel else [])]
    spare = {"local": 1, "clipped": 2, "RMSE": 3}
    columns = [Column(""), Column("tensor", kind="name")]
    columns += [Column(h, right=True, spare=spare.get(h, 0)) for h in (*headings, *shares)]
    columns.append(Column("inherited from", spare=4))
    if result.activations:
        yield Table(
            "activations along the network: SQNR in dB of the network up to here and of this "
            "quantizer alone (local), float values beyond its range (clipped), RMSE in steps, then "
            "the share of each source in the quantized network's error",
            tuple(columns),
            tuple(_activation(t, t.name in marked, kernel=kernel) for t in result.activations),
        )
    constants = [t for t in result.tensors if t.role != "activation"]
    if constants:
        right = [Column(h, right=True) for h in ("SQNR", "clipped", "RMSE")]
        yield Table(
            "weights and biases: SQNR in dB and RMSE in steps of their rounding, float values "
            "beyond the range (clipped), channels of the lowest SQNR",
            (
                Column(""),
                Column("tensor", kind="name"),
                *right,
                Column("worst channels (dB)", spare=1),
            ),
            tuple(_constant(t, t.name in marked) for t in constants),
        )


def _activation(tensor: TensorComparison, is_marked: bool, *, kernel: bool) -> tuple[str, ...]:
    """Give one row; the kernel has a column only in runtime execution."""
    sources = tensor.sources
    shares = ["–"] * (5 if kernel else 4)
    inputs = tensor.no_sources or ""
    if sources is not None:
        found = [sources.inherited, sources.weights, sources.rounding, sources.clipping]
        shares = [
            format_rounded(part, ".1%") for part in (*found, *([sources.kernel or 0.0] * kernel))
        ]
        several = len(sources.inherited_by_input) > 1
        by_input = sources.inherited_by_input.items()
        parts = (f"{name} {format_rounded(part, '.1%')}" for name, part in by_input)
        inputs = ", ".join(parts) if several else ""
    return (
        "!" if is_marked else "",
        printable(tensor.name),
        _decibels(tensor),
        _decibels(tensor, local=True),
        _clipped(tensor),
        _steps(tensor),
        *shares,
        printable(inputs),
    )


def _constant(tensor: TensorComparison, is_marked: bool) -> tuple[str, ...]:
    worst = (
        f"{channel} ({tensor.channels[channel].sqnr_db:.1f})" for channel in tensor.worst_channels
    )
    return (
        "!" if is_marked else "",
        printable(tensor.name),
        _decibels(tensor),
        _clipped(tensor),
        _steps(tensor),
        ", ".join(worst),
    )


def _decibels(tensor: TensorComparison, *, local: bool = False) -> str:
    if tensor.exact:
        return "exact"
    value = tensor.local_sqnr_db if local else tensor.sqnr_db
    return "–" if value is None else f"{value:.1f}"


def _clipped(tensor: TensorComparison | ChannelComparison) -> str:
    low, high = tensor.clipped_low_fraction, tensor.clipped_high_fraction
    if low is None or high is None:
        return "–"
    share = low + high
    return "<0.01%" if 0 < share < 5e-5 else f"{share:.2%}"


def _steps(tensor: TensorComparison) -> str:
    return "–" if tensor.rmse_steps is None else f"{tensor.rmse_steps:.2f}"
