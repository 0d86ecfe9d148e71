"""Answer what edits do, in a thread: the latest question wins, and better answers follow."""

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from threading import Condition, Lock, Thread
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from quantscope.app.editing import Edits
from quantscope.app.memo import Memo, give_back
from quantscope.app.panes.sample_rows import thumbnail_of
from quantscope.app.panes.scores import value_text
from quantscope.app.session import Session
from quantscope.data import Samples
from quantscope.edit import Applied, Editor
from quantscope.errors import QuantscopeError, StoppedError
from quantscope.model import Execution
from quantscope.progress import Progress
from quantscope.run import EvaluationDelta
from quantscope.run.whatif import DownstreamSqnr, Effect, KernelChange, WhatIf

_SECONDS_OF_REST = 0.25
_MOST_TOOLS = 8
_KEPT_BYTES = 128 << 20
"""The most bytes kept for each way to run a model: more than quick answers of a ResNet8 take."""

_tools: WeakKeyDictionary[Session, Memo] = WeakKeyDictionary()
_lock = Lock()


@dataclass(frozen=True)
class RunChoice:
    """How the edited model is run."""

    execution: Execution = "reference"
    int8_kernels: bool | None = None


@dataclass(frozen=True)
class Answer:
    """To the edits in force. Numbers come first; the rest follows when nothing moves any more.

    `applied` is the model with the edits, made once by who asks; None where it cannot be made.
    `after` is its SQNR along the network; `error` says why an answer, or its second half, could not
    be had.
    """

    session: Session
    edits: Edits
    way: RunChoice
    applied: Applied | None = None
    images: Samples | None = None
    effect: Effect | None = None
    after: DownstreamSqnr | None = None
    kernels: tuple[KernelChange, ...] = ()
    settled: bool = False
    error: str = ""

    def measured(self) -> dict[str, Any] | None:
        """The effect as plain values, for a recipe; None if there is none."""
        if self.effect is None or not self.edits:
            return None
        return self.effect.to_dict()


def join_answers(before: Answer | None, answer: Answer) -> Answer:
    """A later answer to the same question: numbers of the most images, and all that is known.

    The second half of a quick answer may come after numbers of more images were asked for.
    """
    if before is None or _question(before) != _question(answer) or answer.effect is None:
        return answer
    more = before if _count(before) > _count(answer) else answer
    return replace(
        more,
        after=answer.after or before.after,
        settled=before.settled or answer.settled,
        error=answer.error,
    )


def _question(answer: Answer) -> tuple[Any, ...]:
    return id(answer.session), answer.edits, answer.way


def _count(answer: Answer) -> int:
    return len(answer.images) if answer.images and answer.effect else 0


class Asked:
    """A `WhatIf`, asked by one thread at a time."""

    def __init__(self, what_if: WhatIf) -> None:
        self.what_if = what_if
        self.lock = Lock()


def ask_for(session: Session, way: RunChoice) -> Asked:
    """Opened once for a pair and a way to run it, whoever asks."""
    return tools_of(session).get(way, lambda: Asked(_open(session, way, session.sample)))


def _open(session: Session, way: RunChoice, images: Samples) -> WhatIf:
    return WhatIf(
        editor_of(session),
        images,
        measure=session.measured_by,
        execution=way.execution,
        int8_kernels=way.int8_kernels,
        kept_bytes_limit=_KEPT_BYTES,
    )


def editor_of(session: Session) -> Editor:
    """Opened when it is first needed, and shared by all pages of this pair."""
    opened = session.opened
    return tools_of(session).get("editor", lambda: Editor(opened.model, opened.compared_with))


def tools_of(session: Session) -> Memo:
    """Kept as long as the session is: results of other panes must not push them out."""
    with _lock:
        return _tools.setdefault(session, Memo(_MOST_TOOLS))


def answer_on(
    images: Samples, session: Session, applied: Applied, way: RunChoice, progress: Progress
) -> Answer:
    """On the whole sample, or on more images; raises what goes wrong."""
    if images is not session.sample:
        effect = _open(session, way, images).effect_of(applied, full=True, progress=progress)
        effect.find_against_float()
    else:
        asked = ask_for(session, way)
        with asked.lock:
            effect = asked.what_if.effect_of(applied, full=True, kernels=False, progress=progress)
            effect.find_against_float()
    return _settled(Answer(session, applied.edits, way, applied, images, effect))


class Answers:
    """`publish` is called in a thread, which ends when there is nothing left to answer.

    Traits of widgets may be set in it; marimo's states may not.
    """

    def __init__(self, publish: Callable[[Answer], None]) -> None:
        self._publish = publish
        self._news = Condition()
        self._question: Answer | None = None
        self._running = False
        self._closed = False

    def ask(self, session: Session, applied: Applied, way: RunChoice) -> None:
        """Ask; what was asked before and is not answered yet never will be."""
        with self._news:
            self._question = Answer(session, applied.edits, way, applied)
            self._news.notify_all()
            if self._running or self._closed:
                return
            self._running = True
        Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        with self._news:
            self._closed, self._question = True, None
            self._news.notify_all()

    def _run(self) -> None:
        while (question := self._next()) is not None:
            answer = _caught(question, _first)
            # Even if there is a newer question: while a slider moves, a late number beats none.
            self._publish(answer)
            if answer.effect is None or self._moves_again():
                continue
            settled = _caught(answer, _settled)
            self._publish(settled)
            if answer.edits and not settled.error:
                self._publish(_caught(settled, partial(_second, progress=self._unless_outdated)))
            give_back()

    def _next(self) -> Answer | None:
        with self._news:
            question, self._question = self._question, None
            if question is None:
                self._running = False
            return question

    def _outdated(self) -> bool:
        with self._news:
            return self._question is not None or self._closed

    def _moves_again(self) -> bool:
        with self._news:
            return self._news.wait_for(
                lambda: self._question is not None or self._closed, _SECONDS_OF_REST
            )

    def _unless_outdated(self, what: str, done: int, total: int) -> None:
        del what, done, total
        if self._outdated():
            raise StoppedError("There is a newer question")


def _first(question: Answer) -> Answer:
    asked = ask_for(question.session, question.way)
    assert question.applied is not None, "who asks has applied the edits"
    with asked.lock:
        effect = asked.what_if.effect_of(question.applied, kernels=False)
        effect.find_against_float()  # here, and not where it is shown
    return replace(question, effect=effect, images=asked.what_if.quick_images)


def _settled(answer: Answer) -> Answer:
    """Add what takes longer than the numbers: the kernels that run otherwise than before."""
    effect = answer.effect
    if effect is None or not answer.edits:
        return replace(answer, settled=True)
    if effect.kernels_changed is None:
        asked = ask_for(answer.session, answer.way)
        with asked.lock:
            found = asked.what_if.kernels_of(effect.applied)
        effect = replace(effect, kernels_changed=found)
    return replace(answer, settled=True, effect=effect, kernels=effect.kernels_changed or ())


def _second(answer: Answer, progress: Progress) -> Answer:
    asked = ask_for(answer.session, answer.way)
    with asked.lock:
        assert answer.effect is not None, "the second answer comes after the first"
        after = asked.what_if.sqnr_of(answer.effect.applied, progress=progress)
    return replace(answer, after=after)


def _caught(given: Answer, make: Callable[[Answer], Answer]) -> Answer:
    """A line instead of an answer: the page goes on working."""
    try:
        return make(given)
    except StoppedError:
        return given
    except QuantscopeError as error:
        return replace(given, error=str(error))
    except Exception as error:
        traceback.print_exc(file=sys.__stderr__)
        return replace(given, error=f"This is a mistake in quantscope: {error!r}")


_SHOWN = 24

_TITLES = {
    "lost": "now wrong",
    "gained": "now right",
    "other": "wrong before and now, otherwise",
    "moved": "now another class",
    "worse": "worse than before, the most first",
    "better": "better than before, the most first",
}


def flip_groups(delta: EvaluationDelta, images: Samples) -> list[dict[str, Any]]:
    """Give the groups of `Flips.groups`; `delta` is of these rows, edited against original."""
    return [
        {
            "key": key,
            "title": _TITLES[key],
            "count": len(rows),
            "images": [_image(delta, images, int(row)) for row in rows[:_SHOWN]],
        }
        for key, rows in _rows_that_moved(delta).items()
        if key in ("lost", "gained") or len(rows)
    ]


def _rows_that_moved(delta: EvaluationDelta) -> dict[str, NDArray[np.intp]]:
    """Give the rows of each group: by classes and labels, by classes alone, or by the score."""
    first, second = delta.first.classes, delta.second.classes
    if first is None or second is None:
        gain = delta.scores.by_sample * (1 if delta.first.score.higher_is_better else -1)
        order = np.argsort(gain, kind="stable")
        return {
            "worse": order[gain[order] < 0],
            "better": order[::-1][gain[order[::-1]] > 0],
        }
    moved = first.predictions != second.predictions
    if first.targets is None:
        return {"moved": np.flatnonzero(moved)}
    rows = {
        "lost": moved & second.right,
        "gained": moved & first.right,
        "other": moved & ~second.right & ~first.right,
    }
    return {key: np.flatnonzero(chosen) for key, chosen in rows.items()}


def _image(delta: EvaluationDelta, images: Samples, row: int) -> dict[str, Any]:
    first, second = delta.first.classes, delta.second.classes
    shown = {"index": int(delta.first.indices[row]), **thumbnail_of(images, row)}
    if first is None or second is None:
        before, after = (each.score for each in (delta.second, delta.first))
        texts = (value_text(float(x.per_sample[row]), x.unit) for x in (before, after))
        return {**shown, "label": "", **dict(zip(("before", "after"), texts, strict=True))}
    names = (*first.names, "NaN")  # the prediction is -1 where a score is NaN
    return {
        **shown,
        "label": "" if first.targets is None else names[first.targets[row]],
        "before": names[second.predictions[row]],
        "after": names[first.predictions[row]],
    }
