"""The pictures of what edits do: by class, and along the network."""

from collections.abc import Iterator

from quantscope.app.painter import Wanted
from quantscope.app.panes.what_if.answers import Answer
from quantscope.app.pictures import WHOLE
from quantscope.report.figures import ThemeName, confusion_difference, per_class_change, sqnr_along

_MOST_CLASSES = 40
"""The most classes that are drawn one by one."""


def wanted(answer: Answer, *, theme: ThemeName) -> list[Wanted]:
    return list(_wanted(answer, theme))


def _wanted(answer: Answer, theme: ThemeName) -> Iterator[Wanted]:
    effect, after = answer.effect, answer.after
    if effect is None or not answer.edits:
        return
    delta = effect.against_base
    key = (answer.edits, answer.way, effect.evaluation.images, theme)
    by_class = delta.tells_classes and len(delta.first.class_names) <= _MOST_CLASSES
    if by_class and len(delta.changed):
        yield Wanted(
            ("by class", *key),
            "Images gained and lost, by class",
            lambda: per_class_change(delta, theme=theme),
            height=3.6,
        )
        yield Wanted(
            ("confusion change", *key),
            "Change of confusion",
            lambda: confusion_difference(delta, theme=theme),
            height=3.6,
        )
    if after is not None:
        yield Wanted(
            ("sqnr before and after", *key),
            "Signal to quantization noise along the network, before and after",
            lambda: sqnr_along(after.before, after, labels=("original", "edited"), theme=theme),
            width=WHOLE,
            height=3.4,
        )
