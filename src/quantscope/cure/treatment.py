"""Every cure begins with a model opened for it, and ends with what it became as a value."""

from collections.abc import Sequence

from quantscope.cure.layer_errors import LayerError
from quantscope.cure.readings import Readings
from quantscope.cure.results import Cure, DoesNotApplyError, LeftOut, Treated
from quantscope.data import SamplesSource, samples_for
from quantscope.edit import Edit, Editor, open_editor
from quantscope.model import ModelSource
from quantscope.progress import Progress, silent

ModelOrEditor = ModelSource | Editor | Readings
"""A cure may be given one of these: a model, an editor that is open already, or readings of one."""


def open_readings(
    model: ModelOrEditor, samples: SamplesSource, float_model: ModelSource | None
) -> Readings:
    """Open what was given; readings are taken as they are, with the samples that they are of."""
    if isinstance(model, Readings):
        return model
    editor = open_editor(model, float_model)
    chosen = samples_for(editor.model, samples)
    return Readings(editor, chosen)


def check_matched(kind: str, readings: Readings) -> None:
    """Raise where a cure that holds layers against float ones finds none to hold."""
    if not readings.layers:
        raise DoesNotApplyError(
            f"{kind} does not apply to {readings.editor.model.name}: no layer with quantized "
            f"weights is known to be one of {readings.original.name}"
        )


def join_reasons(left_out: Sequence[LeftOut], *, most: int = 2) -> str:
    """Say why nothing could be done: the first reasons, and how many more there are."""
    reasons = list(dict.fromkeys(each.why for each in left_out))
    more = len(reasons) - most
    return "; ".join(reasons[:most]) + (f"; and {more} more" if more > 0 else "")


def finish(
    kind: str,
    readings: Readings,
    *,
    explanation: str,
    in_force: tuple[Edit, ...],
    made: Sequence[Edit],
    treated: Sequence[Treated],
    left_out: Sequence[LeftOut],
    before: tuple[LayerError, ...],
    notes: Sequence[str] = (),
    progress: Progress = silent,
) -> Cure:
    """Apply all edits together, compare the layers once more, and give the cure."""
    editor = readings.editor
    after = readings.errors([*in_force, *made], what="Comparing layers again", progress=progress)
    said = list(notes)
    if readings.original.is_stand_in:
        said.append(f"No float original is known; instead of it: {readings.original.name}")
    if readings.samples.is_random:
        said.append(
            f"{readings.samples.name} are made-up rows: what fits them need not fit real ones"
        )
    return Cure(
        kind=kind,
        model=editor.model.name,
        digest=editor.model.digest,
        float_model=readings.original.name,
        calibration=readings.samples.name,
        calibration_digest=readings.samples.digest,
        samples=len(readings.samples),
        explanation=explanation,
        edits=tuple(made),
        in_force=in_force,
        treated=tuple(treated),
        left_out=tuple(left_out),
        before=before,
        after=after,
        notes=tuple(said),
        provenance=readings.provenance,
    )
