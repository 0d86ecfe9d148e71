"""Say what cures did to a model and what each brings, as text."""

from collections.abc import Iterator

from quantscope.cure import Course, Cure, LayerError, Step
from quantscope.plain_text import many, printable
from quantscope.report.table import Column, Line, Table
from quantscope.report.wording import evaluation_delta_text, format_rounded, score_text

_MOST_PLACES = 6


def course_view(course: Course) -> Iterator[str | Line | Table]:
    """Write what came of each cure on other samples, and then what each did."""
    base = course.base
    first = course.steps[0].cure
    yield (
        f"{printable(base.model)}, {base.execution} execution, "
        f"{many(base.images, base.sample_word)} of {base.data}"
    )
    yield (
        f"the cures look at {many(first.samples, base.sample_word)} of {first.calibration}; float "
        f"model: {printable(first.float_model)}"
    )
    yield score_table(course)
    for step in course.steps:
        yield f"{step.cure.kind}: {evaluation_delta_text(step.added)}"
    if len(course.steps) > 1:
        yield f"all together: {evaluation_delta_text(course.steps[-1].in_all)}"
    for step in course.steps:
        yield ""
        yield from cure_view(step.cure)
    if course.not_applied:
        yield ""
        yield from (printable(why) for why in course.not_applied.values())


def score_table(course: Course) -> Table:
    """Write the score after each cure, and the share of the loss that is back by then."""
    rows = [("as it is", score_text(course.base.score), "")]
    rows += [
        (_after(course, step), score_text(step.evaluation.score), _back(course, step))
        for step in course.steps
    ]
    if course.floats is not None:
        rows.append(("float model", score_text(course.floats.second.score), ""))
    return Table(
        "scores, each cure on top of those before it",
        (Column("", kind="text"), Column("score"), Column("of the loss is back", right=True)),
        tuple(rows),
    )


def _after(course: Course, step: Step) -> str:
    return f"{'and' if step is not course.steps[0] else 'with'} {step.cure.kind}"


def _back(course: Course, step: Step) -> str:
    share = course.recovered(step)
    return "–" if share is None else f"{share:.0%}"


def cure_view(cure: Cure) -> Iterator[str | Line | Table]:
    """Write what a cure does and the layers' errors before and after, on calibration samples."""
    yield Line(f"{cure.kind}: {many(len(cure.edits), 'edit')}", "strong")
    yield f"{printable(cure.explanation)}"
    shown = cure.treated[:_MOST_PLACES]
    yield from (f"  {printable(each.where)}: {printable(each.what)}" for each in shown)
    if len(cure.treated) > len(shown):
        yield f"  and {len(cure.treated) - len(shown)} more"
    yield from (
        f"  {printable(e.where)} is left as it is: {printable(e.why)}" for e in cure.left_out
    )
    if cure.before:
        yield error_table(cure)
    yield from (printable(note) for note in cure.notes)


def error_table(cure: Cure) -> Table:
    """Write each layer's SQNR before its quantizer, and the share of its error that is a shift."""
    after = {each.layer: each for each in cure.after}
    return Table(
        "what the layers give against the float ones, before their quantizers, on the calibration "
        "samples",
        (
            Column("layer", kind="name"),
            Column("SQNR", right=True),
            Column("after", right=True),
            Column("shift", right=True),
            Column("after", right=True),
        ),
        tuple(
            (
                printable(before.layer),
                _db(before),
                _db(after[before.layer]),
                f"{before.shift_share:.1%}",
                f"{after[before.layer].shift_share:.1%}",
            )
            for before in cure.before
            if before.layer in after
        ),
    )


def _db(error: LayerError) -> str:
    if error.error == 0:
        return "exact"
    return "–" if error.sqnr_db is None else f"{format_rounded(error.sqnr_db, '.2f')} dB"
