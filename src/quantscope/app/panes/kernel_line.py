"""Say in a line what this CPU's kernels do to the model, with buttons that act on it."""

from quantscope.app.accuracies import Accuracies
from quantscope.app.panes.parts import offer, safe
from quantscope.app.panes.scores import delta_text
from quantscope.app.session import Session
from quantscope.app.words import word
from quantscope.diagnose import waits_for_option
from quantscope.edit import Edit, SetScale
from quantscope.run import KernelMap, saturates_8bit_products

_INTEGERS = "runtime-int8"
"""The way of What if that lets int8 layers run as integers."""


def kernel_lines(session: Session, found: Accuracies | None) -> str:
    """Write the gap between the two executions, and which layers wait for an option."""
    return _gap(session, found) + _floats(session.kernels)


def cure_edits(session: Session) -> tuple[Edit, ...]:
    """Give the edits that leave no product of this CPU's kernels to saturate: weights of 7 bits.

    The scale is twice as large, so the integers are half as large.
    """
    kernels = session.kernels
    if kernels is None or not saturates_8bit_products():
        return ()
    suspects = {layer.name for layer in kernels.layers if layer.saturates}
    layers = session.opened.network.layers
    weights = dict.fromkeys(x.weight.name for x in layers if x.name in suspects and x.weight)
    return tuple(SetScale(name, factor=2.0) for name in weights)


def _gap(session: Session, found: Accuracies | None) -> str:
    if found is None or found.gap is None:
        return ""
    if found.gap.reference.scored is None or found.gap.runtime.scored is None:
        return ""
    explanation = found.gap.explanation()
    if explanation is None:
        return ""
    size = delta_text(found.gap.evaluation_delta)
    return (
        f'<p class="qs-line qs-gap" data-testid="gap">{word("gap", "kernel gap")} '
        f"<b>{safe(size)}</b> {safe(explanation)} {_cures(session)}</p>"
    )


def _cures(session: Session) -> str:
    opened = session.opened
    if not cure_edits(session):
        return ""
    offers = "" if opened.model.why_not_edited else offer("load the cure", "kernels", how="cure")
    if opened.original is not None and not opened.is_stand_in:
        offers += offer("quantize with 7 bits", "kernels", how="seven-bits")
    return offers


def _floats(kernels: KernelMap | None) -> str:
    waiting = [] if kernels is None else [k for k in kernels.layers if waits_for_option(k.why)]
    if kernels is None or not waiting:
        return ""
    return (
        f'<p class="qs-line qs-faint" data-testid="float-layers">{len(waiting)} of '
        f"{kernels.computing_layers} layers run as float here, because onnxruntime fuses "
        f"{word('int8_kernels', 'int8 layers')} only if it is told to. "
        f"{offer('run them as integers', 'kernels', how=_INTEGERS)}</p>"
    )
