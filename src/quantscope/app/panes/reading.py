"""Write one plain sentence on where a tensor's error comes from, and what stands out."""

from collections.abc import Iterator

from quantscope.plain_text import many
from quantscope.run.compare.reading import reading
from quantscope.run.compare.results import Comparison, ErrorSources, TensorComparison

_MOSTLY = 0.5


def sentence(row: TensorComparison) -> str:
    """Say where most of the error comes from; it shows, it does not decide."""
    if row.exact:
        return "It has no error: every value is represented exactly."
    if row.not_finite_images:
        images = many(row.not_finite_images, "image")
        return f"NaN or infinite in {images}; nothing can be read from it."
    if row.role != "activation":
        return _of_constant(row)
    if row.sources is None:
        return f"Its error was not taken apart: {row.no_sources}." if row.no_sources else ""
    name, share = max(_shares(row.sources), key=lambda part: part[1])
    how = "Mostly" if share >= _MOSTLY else "The largest part is"
    alone = row.local_sqnr_db
    ends = f"; this quantizer alone would give {alone:.1f} dB." if alone is not None else "."
    return f"{how} {_SAID[name].format(share=_percent(share))}{_through(row.sources, name)}{ends}"


def standing_out(comparison: Comparison, tensors: list[str]) -> tuple[str, ...]:
    """Give what the comparison says of these tensors because it is not usual."""
    return tuple(
        line for line in reading(comparison) if any(line.startswith(f"{t}: ") for t in tensors)
    )


_SAID = {
    "inherited": "inherited: {share} of the error arrives through the input",
    "weights": "the weights: {share} of the error comes from rounding the weights and the bias",
    "rounding": "rounding: {share} of the error comes from rounding this output to its steps",
    "clipping": "clipping: {share} of the error comes from values outside the range",
    "kernel": "the kernel: {share} of the error comes from how this CPU computes the layer",
}


def _shares(sources: ErrorSources) -> Iterator[tuple[str, float]]:
    yield "inherited", sources.inherited
    yield "weights", sources.weights
    yield "rounding", sources.rounding
    yield "clipping", sources.clipping
    if sources.kernel is not None:
        yield "kernel", sources.kernel


def _through(sources: ErrorSources, name: str) -> str:
    """Name the input through which most of the inherited error came, where there are several."""
    inputs = sources.inherited_by_input
    if name != "inherited" or len(inputs) < 2:
        return ""
    largest = max(inputs, key=lambda tensor: inputs[tensor])
    return f"s, {_percent(inputs[largest])} of it through {largest}"


def _of_constant(row: TensorComparison) -> str:
    if row.sqnr_db is None:
        return "All of its float values are zero."
    steps = f", {row.rmse_steps:.2f} steps" if row.rmse_steps is not None else ""
    return f"Rounded once, when the model was quantized: {row.sqnr_db:.1f} dB{steps}."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
