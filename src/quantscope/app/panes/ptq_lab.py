"""Show the PTQ lab: a form with every choice, what came of those that were tried, and figures."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import marimo as mo
import traitlets
from matplotlib.figure import Figure

from quantscope.app.lab import Lab, NoFloatError, choices, config_from, lab_of, methods_of, sizes_of
from quantscope.app.own_lab import OwnTrial, OwnTrials
from quantscope.app.painter import Wanted
from quantscope.app.panes.parts import OPEN_FLOAT, line, missing
from quantscope.app.panes.scores import delta_text, ends_text, percent, points, score_text
from quantscope.app.pictures import WHOLE
from quantscope.app.widgets import Job, PtqForm, TrialTable
from quantscope.app.words import EXECUTIONS
from quantscope.app.worker import Worker
from quantscope.errors import QuantscopeError
from quantscope.quantize import PtqConfig
from quantscope.report.figures import ThemeName
from quantscope.report.study import accuracy_figure, calibration_curves, calibration_figure
from quantscope.run import Evaluation, compare_evaluations
from quantscope.study import Measured, StudyConfig, StudyResult, Trial

if TYPE_CHECKING:
    from quantscope.app.page import Page

Drawing = Callable[..., Figure | None]
_AS_IT_IS = ("", "the framework's default")
_NAMES = {
    "minmax": "MinMax",
    "entropy": "entropy",
    "percentile": "percentile",
    "qdq": "QDQ",
    "qoperator": "QOperator",
    "x86": "torchao's x86",
    "torch": "PyTorch PT2E",
}
COLUMNS = (
    {"label": "configuration", "word": "", "right": False},
    {"label": EXECUTIONS["reference"], "word": "reference", "right": True},
    {"label": "against float", "word": "interval", "right": True},
    {"label": EXECUTIONS["runtime"], "word": "runtime", "right": True},
    {"label": "against float", "word": "interval", "right": True},
    {"label": "file", "word": "", "right": True},
)


class PtqLab:
    """The pane's widgets, made once a page."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.form, self.table, self.job = PtqForm(fields=_fields()), TrialTable(), Job()
        self.table.columns = list(COLUMNS)
        self.worker = Worker(self.job, self.refresh)
        self.views = {name: mo.ui.anywidget(widget) for name, widget in self._widgets().items()}
        traitlets.dlink((self.job, "running"), (self.form, "busy"))
        self.form.on_msg(self._on_form)
        self.table.on_msg(self._on_table)
        self.job.on_msg(self._on_job)

    @property
    def lab(self) -> Lab:
        """The lab of the float model; raises a `QuantscopeError` where there is none."""
        return lab_of(self.page.session)

    def show(self) -> mo.Html:
        """Give places for widgets: nothing here changes while trials run."""
        try:
            lab = self.lab
        except QuantscopeError as error:
            offers = (OPEN_FLOAT,) if isinstance(error, NoFloatError) else ()
            said = missing(f"{error}.", *offers)
            return mo.Html(f'<div class="qs-card" data-testid="no-lab">{said}</div>')
        self.refresh()
        text = _data_note(lab) or lab.trials.no_torch
        note = line(text, kind="qs-faint") if text else ""
        return mo.Html(
            '<div class="qs-layer" data-testid="lab">'
            f'<div class="qs-card">{self.views["form"]}{note}{self.views["job"]}</div>'
            f"{self.views['table']}</div>"
        )

    def refresh(self) -> None:
        """Show what was tried since; called from the worker's thread too."""
        try:
            lab = self.lab
        except QuantscopeError:
            self.table.rows = []
            return
        opened = self.page.session.opened.path
        self.table.rows = [
            *(_row_of(trial, opened=trial.model == opened) for trial in lab.newest_first),
            *(_failed(label, why) for label, why in lab.failures.items()),
        ]
        self.page.lab_news()

    def wanted(self, theme: ThemeName) -> list[Wanted]:
        try:
            trials = self.lab.trials
        except QuantscopeError:
            return []
        # What is no accuracy has no figures here: the table says it all.
        if isinstance(trials, OwnTrials) or not trials.trials:
            return []
        result = trials.result()
        keys = tuple(row.key for row in result.rows)
        titles: dict[str, tuple[str, Drawing]] = {
            "lab accuracy": ("Tried configurations", accuracy_figure)
        }
        if calibration_curves(result.measured):
            titles["lab calibration"] = ("Calibration images", calibration_figure)
        return [
            Wanted((name, keys, theme), title, partial(_figure, draw, result, theme), width=WHOLE)
            for name, (title, draw) in titles.items()
        ]

    def close(self) -> None:
        self.worker.stop()
        for widget in self._widgets().values():
            widget.close()

    def _widgets(self) -> dict[str, Any]:
        return {"form": self.form, "table": self.table, "job": self.job}

    def _on_form(self, _widget: Any, message: dict[str, Any], _buffers: Any) -> None:
        if self.job.running:
            return
        self.form.error = ""
        try:
            config = config_from(message.get("values", {}))
            several = {"sizes": sizes_of, "methods": methods_of}.get(message.get("do", ""))
            configs = several(config) if several else [config]
            lab = self.lab
        except QuantscopeError as error:
            self.form.error = str(error)
            return
        self.worker.start(lambda progress: lab.run(configs, progress))

    def quantize(self, config: PtqConfig) -> None:
        """Try a configuration that another pane proposes.

        It raises where there is no lab, and while another trial runs.
        """
        lab = self.lab
        if self.job.running:
            raise QuantscopeError(
                "Another trial is running; wait for its end or stop it in Quantize, and choose "
                "this again"
            )
        self.worker.start(lambda progress: lab.run([StudyConfig(config)], progress))

    def _on_table(self, _widget: Any, message: dict[str, str], _buffers: Any) -> None:
        if message.get("do") != "open":
            return
        try:
            trial = self.lab.trial(message.get("key", ""))
        except QuantscopeError as error:
            self.form.error = str(error)
            return
        self.lab.shown.add(trial.model)
        opened = self.page.session.opened
        float_path = opened.path if opened.is_float else opened.float_path
        self.page.open(self.page.give_as(trial.model, float_path))

    def _on_job(self, _widget: Any, message: dict[str, str], _buffers: Any) -> None:
        if message.get("do") == "stop":
            self.worker.stop()


def _figure(draw: Drawing, result: StudyResult, theme: ThemeName) -> Figure:
    figure = draw(result, names=EXECUTIONS, theme=theme)
    assert figure is not None, "asked for only where there is something to draw"
    return figure


def _data_note(lab: Lab) -> str:
    """Say which samples an own network is tried with."""
    trials = lab.trials
    if not isinstance(trials, OwnTrials):
        return ""
    samples = trials.samples
    return f"Calibrated with {samples.describe_origin()}, and measured on the same."


def _row_of(trial: Trial | OwnTrial, *, opened: bool) -> dict[str, Any]:
    return _own_row(trial, opened) if isinstance(trial, OwnTrial) else _row(trial, opened=opened)


def _own_row(trial: OwnTrial, opened: bool) -> dict[str, Any]:
    cells: list[str] = [trial.label]
    sort: list[str | float | None] = [trial.label]
    for execution in ("reference", "runtime"):
        found = trial.evaluations.get(execution)
        texts, values = _own_measured(found, trial.floats)
        cells += texts
        sort += values
    size = trial.made.size_bytes
    return {
        "key": trial.key,
        "cells": [*cells, f"{size / 1000:,.0f} kB"],
        "sort": [*sort, size],
        "note": "; ".join(trial.made.warnings),
        "opened": opened,
    }


def _own_measured(
    found: Evaluation | None, floats: Evaluation
) -> tuple[list[str], list[float | None]]:
    """Give texts and sort values of a score, and its change where the float model has one too."""
    if found is None or found.scored is None:
        return ["–", "–"], [None, None]
    score = found.scored
    if floats.scored is None:
        return [score_text(score), ends_text(score)], [score.value, score.value]
    change = compare_evaluations(found, floats)
    return [score_text(score), delta_text(change)], [score.value, change.delta]


def _row(trial: Trial, *, opened: bool) -> dict[str, Any]:
    row = trial.row
    reference, runtime = _measured(row.reference), _measured(row.runtime)
    size = row.size_bytes or 0
    note = "; ".join(
        (*trial.warnings, *([row.kernel_gap.explanation or ""] if row.kernel_gap else []))
    )
    return {
        "key": row.key,
        "cells": [row.label, *reference[0], *runtime[0], f"{size / 1000:,.0f} kB"],
        "sort": [row.label, *reference[1], *runtime[1], size],
        "note": note.strip("; "),
        "opened": opened,
    }


def _measured(found: Measured | None) -> tuple[list[str], list[float | None]]:
    """Give texts and sort values of an accuracy and its change against float."""
    if found is None or found.change is None:
        return ["–", "–"], [None, None]
    change = found.change
    texts = [
        percent(found.accuracy, found.images),
        points(change.delta, change.interval_95, found.images),
    ]
    return texts, [found.accuracy, change.delta]


def _failed(label: str, why: str) -> dict[str, Any]:
    cells = [f"{label}: {why}", *("–" for _ in COLUMNS[1:])]
    return {
        "key": "",
        "cells": cells,
        "sort": [label, *(None for _ in COLUMNS[1:])],
        "note": why,
        "opened": False,
    }


def _fields() -> list[dict[str, Any]]:
    """List the form's fields; one with a framework is shown for that one only."""
    known = choices()

    def choice(key: str, label: str, value: str, **more: Any) -> dict[str, Any]:
        options = [(name, _NAMES.get(name, name)) for name in known[key]]
        offered = [_AS_IT_IS, *options] if not value else options
        return {"key": key, "label": label, "kind": "choice", "options": offered, "value": value,
                "word": more.pop("word", ""), **more}  # fmt: skip

    def field(kind: str, key: str, label: str, value: Any = "", **more: Any) -> dict[str, Any]:
        return {"key": key, "label": label, "kind": kind, "value": value,
                "word": more.pop("word", ""), **more}  # fmt: skip

    ort, torch = {"framework": "onnxruntime"}, {"framework": "torch"}
    return [
        choice("framework", "framework", "onnxruntime", word="framework"),
        choice("activations", "activations", "", word="dtype"),
        choice("weights", "weights", "int8", word="dtype"),
        choice("calibration", "calibration", "", word="calibration", **ort),
        field("number", "percentile", "percentile", placeholder="99.99", **ort),
        field(
            "number", "histogram_bins", "histogram bins", placeholder="as the method has it", **ort
        ),
        choice("observer", "observer of activations", "", word="calibration", **torch),
        choice("weight_observer", "observer of weights", "", **torch),
        choice("torch_quantizer", "quantizer", "", **torch),
        field(
            "number", "calibration_images", "calibration images", "256", word="calibration_images"
        ),
        field("number", "calibration_seed", "calibration seed", "0"),
        choice("format", "format", "", word="format", **ort),
        choice("int8_kernels", "int8 kernels", "", word="int8_kernels", **ort),
        field("text", "left_float", "layers left float", placeholder="stem, head"),
        field("check", "per_channel", "weights per channel", value=True, word="per_channel"),
        field(
            "check", "symmetric_activations", "symmetric activations", value=False, word="symmetric"
        ),
        field("check", "reduce_range", "7-bit weights", value=False, word="reduce_range", **ort),
    ]
