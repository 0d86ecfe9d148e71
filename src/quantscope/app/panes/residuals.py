"""Show where branches meet: the steps of each, the bits that the sum takes, and what it costs."""

from collections.abc import Iterator, Sequence

import marimo as mo

from quantscope.app.editing import EditedFile
from quantscope.app.painter import Wanted
from quantscope.app.panes.parts import line, safe, say_which_model, select_button, share_text, table
from quantscope.app.pictures import WHOLE
from quantscope.app.place import Selection, select_layer, select_tensor
from quantscope.app.session import Session
from quantscope.app.words import word
from quantscope.model import Branch, Residual, residuals
from quantscope.report.figures import ThemeName, residual_branches
from quantscope.run.compare import TensorComparison

_FLOAT = "Nothing is quantized in this network, so its branches have no steps that could differ."
_NONE = "No layer of this network joins branches that are all quantized with one scale each."


def show(session: Session, selection: Selection, edited: EditedFile | None = None) -> mo.Html:
    found = residuals(session.opened.network)
    none = _FLOAT if session.opened.is_float else _NONE
    body = "".join(_join(session, one, selection) for one in found) or line(none)
    said = say_which_model(
        edited, "These are the sums of the model as it was opened, without {edits}."
    )
    return mo.Html(f'<div class="qs-layer" data-testid="residuals">{said}{body}</div>')


def wanted(session: Session, *, theme: ThemeName) -> list[Wanted]:
    found, comparison = residuals(session.opened.network), session.comparison
    if not found:
        return []
    images = comparison.images if comparison else 0
    return [
        Wanted(
            ("residuals", images, session.compared_in, theme),
            "Branches of every sum",
            lambda: residual_branches(found, comparison, theme=theme),
            width=WHOLE,
        )
    ]


def _join(session: Session, residual: Residual, selection: Selection) -> str:
    row = session.find_comparison(residual.output)
    layer = session.opened.network.layer(residual.layer)
    name = select_button(
        select_layer(layer), residual.layer, chosen=selection.layer == residual.layer
    )
    head = (
        "branch",
        word("scale", "scale"),
        word("bits_lost", "bits lost"),
        word("bits_left", "bits left"),
        word("branch_cost", "share of the sum's error"),
    )
    cells = table(head, _branches(session, residual, row), right=(1, 2, 3, 4))
    return (
        f'<section class="qs-card qs-join"><div class="qs-heading"><h2>{name}</h2>'
        f"<span>{safe(residual.op_type)}</span>{_sum_facts(residual, row)}</div>{cells}"
        f'<p class="qs-reading">{_sentence(residual)}</p></section>'
    )


def _branches(
    session: Session, residual: Residual, row: TensorComparison | None
) -> Iterator[Sequence[str]]:
    through = row.sources.inherited_by_input if row and row.sources else {}
    for branch in residual.branches:
        tensor = session.opened.network.tensor(branch.tensor)
        share = through.get(branch.tensor)
        yield (
            select_button(select_tensor(tensor), branch.tensor),
            f"{branch.step:.4g}",
            "–" if branch.bits_lost is None else f"{branch.bits_lost:.2f}",
            _left(branch),
            "–" if share is None else share_text(share, 1),
        )


def _left(branch: Branch) -> str:
    return "–" if branch.effective_bits is None else f"{branch.effective_bits:.2f} of {branch.bits}"


def _sum_facts(residual: Residual, row: TensorComparison | None) -> str:
    facts = [] if residual.output_step is None else [f"step of the sum {residual.output_step:.4g}"]
    if row is not None and row.sqnr_db is not None:
        facts.append(f"SQNR {row.sqnr_db:.1f} dB")
    if row is not None and row.sources is not None:
        own = row.sources.rounding + row.sources.clipping
        facts.append(f"its own rounding and clipping {share_text(own, 1)} of the error")
    return "".join(f"<span>{safe(fact)}</span>" for fact in facts)


def _sentence(residual: Residual) -> str:
    smaller = residual.smaller
    if residual.ratio < 1.5:
        return "The branches have nearly the same step: neither starves the other."
    if smaller.bits_lost is None:
        return f"{safe(smaller.tensor)} has the finer step, by a factor of {residual.ratio:.1f}."
    return (
        f"{safe(smaller.tensor)} has the finer step, by a factor of {residual.ratio:.1f}; the "
        f"sum's step takes {smaller.bits_lost:.1f} of its {smaller.bits} bits."
    )
