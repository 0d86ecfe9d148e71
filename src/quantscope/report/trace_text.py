"""Lay a trace out for people: the formula with its numbers, and the terms as a table."""

from collections.abc import Iterator, Sequence

from quantscope.arithmetic import type_text
from quantscope.run.integers import Multiplier, RuntimeTrace, Term, Trace

WIDTH = 52


def trace_text(trace: Trace, *, terms: int | None = 16) -> str:
    """Lay a trace out for people, with `terms` of the largest products.

    With None all are shown, in the order in which they are added.
    """
    lines = [
        f"{trace.layer} ({trace.op_type}) of {trace.model}, output {_place(trace.at)}, "
        f"image {trace.image} of {trace.data}",
        "",
        *_tensor_lines(trace),
        "",
        *_sum_lines(trace),
        *_rounding_lines(trace),
        "",
        *_float_lines(trace),
        *_reference_lines(trace),
        *_runtime_lines(trace),
        "",
        *_term_lines(trace, terms),
    ]
    return "\n".join(lines)


def computation(trace: Trace) -> list[tuple[str, str]]:
    """Split the formula, line by line, into what is computed and what it gives.

    A remark gives an empty text.
    """
    lines = (
        *_sum_lines(trace),
        *_rounding_lines(trace),
        *_float_lines(trace),
        *_reference_lines(trace),
        *_runtime_lines(trace),
    )
    split = (line.partition(" = ") for line in lines)
    return [(what.strip(), value.strip()) for what, _, value in split]


def _tensor_lines(trace: Trace) -> Iterator[str]:
    width = max(len(tensor.name) for tensor in trace.tensors)
    types = [type_text(tensor.dtype, tensor.bits) for tensor in trace.tensors]
    longest = max(6, *map(len, types))
    for tensor, kind in zip(trace.tensors, types, strict=True):
        channel = "" if tensor.channel is None else f"   (channel {tensor.channel})"
        relu = ""
        if tensor.role == "y" and trace.relu is not None:
            relu = "   (also does the work of a ReLU)" if trace.relu == "folded" else ""
        yield (
            f"{tensor.role}  {tensor.name:<{width}}  {kind:<{longest}} scale {tensor.scale:<13.9g}"
            f" zero-point {tensor.zero_point}{channel}{relu}"
        )


def _sum_lines(trace: Trace) -> Iterator[str]:
    """Follow the sum up to the output's steps: of products, of values, or of an Add's two terms."""
    zeros = {t.role: t.zero_point for t in trace.tensors}
    if trace.op_type == "Add":
        for term, multiplier in zip(trace.terms, trace.multipliers, strict=True):
            what = (
                f"{term.tensor}: ({_less(term.x, term.x - term.x_centred)}) * {multiplier.formula}"
            )
            yield _line(what, f"{term.steps:.6f}")
        for multiplier in trace.multipliers:
            yield _multiplier_line(multiplier)
        yield _line("sum, in steps of s_y", f"{trace.steps:.6f}")
        return
    # Pooling has no weights: it adds values.
    if "w" in zeros:
        met = f"({_less('x', zeros['x'])}) * ({_less('w', zeros['w'])})"
        what = f"sum of {len(trace.terms)} products {met}"
    else:
        what = f"sum of {len(trace.terms)} values {_less('x', zeros['x'])}"
    yield _line(what, f"{trace.sum}")
    if trace.bias is not None:
        is_whole = isinstance(trace.bias, int)
        yield _line(
            "bias" if is_whole else "bias, a real number in the file, in accumulator steps",
            f"{trace.bias}" if is_whole else f"{trace.bias:.3f}",
        )
        yield _line(
            "accumulator", f"{trace.accumulator}" if is_whole else f"{trace.accumulator:.3f}"
        )
    multiplier = trace.multipliers[0]
    yield _multiplier_line(multiplier)
    yield _line(f"accumulator * {multiplier.formula}", f"{trace.steps:.6f}")


def _multiplier_line(multiplier: Multiplier) -> str:
    m = multiplier
    return _line(
        f"{m.formula}",
        f"{m.float64:.12g}   float32 {m.float32:.9g}, fixed point {m.mantissa} * 2^{m.shift - 31}",
    )


def _rounding_lines(trace: Trace) -> Iterator[str]:
    """Follow the accumulator through rounding and clamping; name other multipliers that differ."""
    if trace.integer is None:
        yield _line("no quantizer follows; the result is real", f"{trace.real:.9g}")
        return
    yield _line("rounded, half to even", f"{trace.rounded}")
    yield _line(f"plus zero-point {trace.zero_point}", f"{trace.unclamped}")
    end = f"   cut off at the {trace.clamped} end" if trace.clamped else ""
    if trace.clamped == "low" and trace.relu is not None:
        end = "   negative, cut off by the ReLU"
    yield _line(f"clamped to {trace.qmin}..{trace.qmax}", f"{trace.integer}{end}")
    y = trace.tensors[-1]
    yield _line(f"real value ({_less(trace.integer, y.zero_point)}) * s_y", f"{trace.real:.9g}")
    for name, other in (
        ("with the float32 multiplier", trace.float32_integer),
        ("with mantissa and shift", trace.fixed_point_integer),
    ):
        if other is not None and other != trace.integer:
            yield _line(name, f"{other}   {_steps(other - trace.integer)}")


def _float_lines(trace: Trace) -> Iterator[str]:
    if trace.float_value is None:
        yield f"float network: {trace.float_note}"
        return
    error = trace.real - trace.float_value
    in_steps = "" if trace.integer is None else f", {error / trace.tensors[-1].scale:+.2f} steps"
    yield _line(
        f"float network ({trace.float_model})",
        f"{trace.float_value:.9g}   the quantized value is off by {error:+.4g}{in_steps}",
    )


def _reference_lines(trace: Trace) -> Iterator[str]:
    """Hold the result against reference execution, here and over the whole layer."""
    steps = trace.reference_steps
    if steps is None:
        yield _line("reference execution", f"{trace.reference_real:.9g}")
        return
    why = "equal"
    if steps:
        why = _steps(steps)
        if trace.is_tie and abs(steps) == 1:
            why += f": a rounding tie ({trace.tie_distance:.2g} of a step away), float32 sums"
    yield _line("reference execution", f"{trace.reference_integer}   {why}")
    found = trace.agreement
    if found is not None:
        off = f", {found.one_step:,} one step off" if found.one_step else ""
        off += f", {found.more:,} further (up to {found.largest_steps})" if found.more else ""
        yield (
            f"  the whole layer, this image: {found.equal:,} of {found.values:,} values equal{off}"
        )


def _runtime_lines(trace: Trace) -> Iterator[str]:
    """Say how far the shipped kernel is off, and whether it inherited that or made it."""
    runtime = trace.runtime
    if runtime is None:
        if trace.runtime_note:
            yield f"runtime execution: {trace.runtime_note}"
        return
    difference = "as in reference execution" if runtime.steps == 0 else _steps(runtime.steps)
    yield _line(f"runtime execution ({runtime.kernel})", f"{runtime.integer}   {difference}")
    if runtime.steps:
        sources = []
        if runtime.inherited_steps:
            sources.append(f"{runtime.inherited_steps:+d} from inputs that earlier layers changed")
        if runtime.kernel_steps:
            sources.append(f"{runtime.kernel_steps:+d} from its own kernel")
        yield f"  {', '.join(sources)}"
    yield from _pair_lines(runtime)
    yield (
        f"  the whole layer, this image: {runtime.different_from_reference:,} of "
        f"{runtime.values:,} values differ from reference; the modelled kernel gives the runtime's "
        f"integer for {runtime.predicted_equal:,}"
    )


def _pair_lines(runtime: RuntimeTrace) -> Iterator[str]:
    """List pairs of products that saturated, and say whether they explain the difference."""
    if not runtime.saturates:
        return
    pairs = runtime.saturated_pairs
    if not pairs:
        if runtime.kernel_steps:
            yield "  no pair of products saturates here: something else changed it"
        return
    lost = sum(pair.lost for pair in pairs)
    verdict = "which explains it" if runtime.is_explained else "which does not explain it all"
    yield (
        f"  {len(pairs)} {'pairs' if len(pairs) > 1 else 'pair'} of products saturating 16 bits "
        f"changed the accumulator by {lost:+d}, {verdict}:"
    )
    for pair in pairs[:8]:
        yield (
            f"    {pair.x[0]} * {pair.w[0]} + {pair.x[1]} * {pair.w[1]} = {pair.sum}, kept "
            f"{pair.kept}   x at {_place(pair.at[0])} and {_place(pair.at[1])}"
        )
    if len(pairs) > 8:
        yield f"    and {len(pairs) - 8} more"


def _term_lines(trace: Trace, limit: int | None) -> Iterator[str]:
    """List the terms as a table: all in their order, or the largest first."""
    terms: Sequence[Term] = trace.terms
    if limit is not None and len(terms) > limit:
        terms = sorted(terms, key=lambda term: -abs(term.product))[:limit]
        yield f"the {limit} largest of {len(trace.terms)} terms (--all shows every one)"
    has_weights = any(term.w is not None for term in terms)
    head = ["x at", "x", "x - zx", *(["w", "w - zw"] if has_weights else []), "product", "steps"]
    rows = [head]
    for term in terms:
        weight = [f"{term.w}", f"{term.w_centred}"] if has_weights else []
        place = _place(term.at) + (" padding" if term.is_padding else "")
        steps = f"{term.steps:.4f}"
        rows.append([place, f"{term.x}", f"{term.x_centred}", *weight, f"{term.product}", steps])
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    for row in rows:
        first = f"{row[0]:<{widths[0]}}"
        rest = (f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join([first, *rest])


def _less(value: object, zero_point: int) -> str:
    return f"{value} - {zero_point}" if zero_point >= 0 else f"{value} + {-zero_point}"


def _line(what: str, value: str) -> str:
    return f"{what:<{WIDTH}} = {value}"


def _place(at: Sequence[int]) -> str:
    return "[" + ",".join(map(str, at)) + "]"


def _steps(steps: int) -> str:
    size = abs(steps)
    return f"{size} step{'s' * (size > 1)} {'above' if steps > 0 else 'below'}"
