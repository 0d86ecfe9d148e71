"""Write pieces of HTML that panes share. Every text from a model goes through `safe`."""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from json import dumps

from quantscope.app.editing import EditedFile
from quantscope.app.place import Selection
from quantscope.plain_text import many, printable
from quantscope.run.compare import Comparison, ErrorSources, TensorComparison, reading


def safe(text: str) -> str:
    return escape(printable(text))


def with_minus(text: str) -> str:
    """Write numbers below zero with the sign that the page has for them."""
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)


def share_text(share: float, digits: int = 2) -> str:
    """Write `0.03 %`; a share that is not zero never reads as zero."""
    smallest = 10.0**-digits
    if share and abs(100 * share) < smallest / 2:
        return f"< {smallest:g} %" if share > 0 else f"> −{smallest:g} %"
    return f"{100 * share:.{digits}f} %".replace("-", "−")


def select_button(selection: Selection, text: str, *, chosen: bool = False) -> str:
    """Write a name that selects what it names, as a click in the graph does."""
    sent = escape(dumps(selection.to_dict()), quote=True)
    mark = ' aria-pressed="true"' if chosen else ""
    return f'<button type="button" class="qs-link" data-select="{sent}"{mark}>{safe(text)}</button>'


def offer(text: str, do: str, **more: str) -> str:
    """Write a button that asks the page for something; see `Chrome` for what it can be."""
    sent = escape(dumps({"do": do, **more}), quote=True)
    return f'<button type="button" class="qs-offer" data-ask="{sent}">{safe(text)}</button>'


def missing(text: str, *offers: str) -> str:
    """Write one line that says what is missing, and buttons that bring it."""
    return f'<p class="qs-line qs-missing" data-testid="missing">{safe(text)} {"".join(offers)}</p>'


OPEN_FLOAT = offer("give the float model", "opener", field="float")
OPEN_DATA = offer("give data", "opener", field="data")
MAKE_ROWS = offer("make random rows", "random")
QUANTIZE = offer("quantize it", "tab", tab="Quantize")


_SHORT, _NARROW = 8, 6
"""Tables with more rows or columns may be longer or wider than their place."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Write a table whose cells and headings are HTML already."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            # A heading without words is none.
            f"<{tag if cell else 'td'}{' class=qs-right' if place in right else ''}>{cell}"
            f"</{tag if cell else 'td'}>"
            for place, cell in enumerate(row)
        )

    lines = [f"<tr>{cells('td', row)}</tr>" for row in rows]
    body = "".join(lines)
    # What may scroll must be reached with the keyboard.
    long = len(lines) > _SHORT or len(head) > _NARROW
    reached = ' tabindex="0" role="group" aria-label="Table"' if long else ""
    return (
        f'<div class="qs-scroll"{reached}><table class="qs-cells"><thead><tr>'
        f"{cells('th', head)}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def line(text: str, *, kind: str = "") -> str:
    """Write a paragraph; the text is escaped."""
    return f'<p class="qs-line {kind}">{escape(text)}</p>'


def say_which_model(edited: EditedFile | None, text: str) -> str:
    """Say which model a pane shows, while edits are in force; `{edits}` names them."""
    if edited is None:
        return ""
    said = escape(text.format(edits=edited.in_force))
    return f'<p class="qs-line qs-which" data-testid="which-model">{said}</p>'


def stacked_bar(parts: Sequence[tuple[str, str, float]]) -> str:
    """Draw shares of a whole as (name, colour, share); negative ones are named, without width."""
    whole = sum(max(share, 0.0) for *_, share in parts) or 1.0
    blocks = "".join(
        f'<i style="width:{100 * max(share, 0.0) / whole:.2f}%;background:{colour}"></i>'
        for _, colour, share in parts
    )
    keys = "".join(
        f'<span><i style="background:{colour}"></i>{name} <b>{share_text(share, 0)}</b></span>'
        for name, colour, share in parts
    )
    return f'<div class="qs-bar">{blocks}</div><div class="qs-keys">{keys}</div>'


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
