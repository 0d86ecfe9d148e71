"""Write what gives a number of the page again: a command, and the same in Python, ready to paste.

Everything here is a function of plain values, so that a test can run what is copied. The `Subject`
of what a page shows is made in `panes/take.py`.
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from quantscope.app.spelling import edit_options, wish_options
from quantscope.data import RowWishes
from quantscope.edit import Edit, Recipe, edit_from_dict, edit_to_dict
from quantscope.model import Execution

_USUAL_ROWS = 1000
_LONGEST_COMMAND = 2000
"""More edits than fit are a recipe, written by the command that is copied."""


@dataclass(frozen=True)
class Reproduction:
    """How to get `what` again. `command` is empty where only Python can, and `why` says why."""

    what: str
    command: str
    python: str
    why: str = ""

    def to_dict(self) -> dict[str, str]:
        return dict(vars(self))


@dataclass(frozen=True)
class Subject:
    """A model and rows, as a person types them; paths are whole ones.

    `counts` are how many rows were taken evenly, one choice after the other, of `rows_in_all`.
    """

    model: str
    digest: str = ""
    float_model: str = ""
    data: str = ""
    wishes: RowWishes = field(default_factory=RowWishes)
    counts: tuple[int, ...] = ()
    rows_in_all: int = 0
    measure: str = ""
    lower_is_better: bool = False


def scores(
    subject: Subject, executions: Sequence[Execution], what: str = "the scores"
) -> Reproduction:
    """Give the scores in the executions that the model has; of a float model, its own."""
    both = len(executions) > 1
    runs = ["both"] if both else list(executions[:1] or ("reference",))
    command = _command(subject, "evaluate", f"--execution {runs[0]}", counted=True)
    return _both(
        subject,
        what,
        command,
        ["from quantscope import evaluate"],
        [
            f"{name} = evaluate(model, rows{_options(subject, counted=True)}, execution={name!r})"
            for name in (executions or ("reference",))
        ],
    )


def diagnosis(subject: Subject, *, tries: bool) -> Reproduction:
    return _both(
        subject,
        "the diagnosis",
        _command(subject, "diagnose", "--try" if tries else "", counted=True, usual=_USUAL_ROWS),
        ["from quantscope.diagnose import diagnose"],
        [f"result = diagnose(model, rows{_options(subject, counted=True)}, tries={tries})"],
    )


def comparison(subject: Subject, execution: Execution, tensor: str = "") -> Reproduction:
    """Give the error of all tensors, or of one with its channels."""
    one = f"--tensor={shlex.quote(tensor)}" if tensor else ""
    command = _command(subject, "compare", f"--execution {execution}", one, usual=_USUAL_ROWS)
    compared = f"compare(model, rows{_options(subject)}, execution={execution!r})"
    return _both(
        subject,
        f"the error of {tensor}" if tensor else "the error of all tensors",
        command,
        ["from quantscope import compare"],
        [f"result = {compared}{f'[{tensor!r}]' if tensor else ''}"],
    )


def sensitivities(subject: Subject) -> Reproduction:
    return _both(
        subject,
        "the sensitivity of the layers",
        _command(subject, "sensitivity", usual=_USUAL_ROWS),
        ["from quantscope import sensitivity"],
        [f"result = sensitivity(model, rows{_options(subject)})"],
    )


def parameters(subject: Subject, layer: str = "") -> Reproduction:
    """Give what the file states of all layers, or of one in full."""
    one = f"--layer={shlex.quote(layer)}" if layer else ""
    return Reproduction(
        f"the parameters of {layer}" if layer else "the layers and their parameters",
        _words("quantscope inspect", _model(subject), one),
        _script(
            ["from quantscope import read_network"],
            [
                f"network = read_network({subject.model!r})",
                f"result = network.layer({layer!r})" if layer else "result = network.layers",
            ],
        ),
    )


def sums(subject: Subject) -> Reproduction:
    """Give the steps and bits of every place where branches meet."""
    return Reproduction(
        "the sums and their branches",
        _words("quantscope inspect", _model(subject), "--residuals"),
        _script(
            ["from quantscope import read_network", "from quantscope.model import residuals"],
            [f"result = residuals(read_network({subject.model!r}))"],
        ),
    )


def answers(subject: Subject, row: int, executions: Sequence[Execution]) -> Reproduction:
    """Give what the network says of one row, by its place among those that were taken."""
    return _both(
        subject,
        f"the answers to row {row}",
        "",
        ["from quantscope import evaluate"],
        [
            f"one = rows.select([{row}])",
            *(
                f"{name} = evaluate(model, one{_options(subject)}, execution={name!r}).outputs"
                for name in (executions or ("reference",))
            ),
        ],
        why="commands score many rows; one row's values are kept by quantscope capture",
    )


def effect(
    subject: Subject,
    edits: Sequence[Edit],
    execution: Execution,
    *,
    int8_kernels: bool | None = None,
) -> Reproduction:
    """Give what edits do; those that no options can say are written as a recipe first."""
    way = f"--execution {execution}" + (" --int8-kernels" if int8_kernels else "")
    said = edit_options(edits)
    if said is not None and len(said) <= _LONGEST_COMMAND:
        command = _command(subject, "whatif", said, way, counted=True)
    else:
        recipe = Recipe(subject.digest, tuple(edits), base_model=subject.model).to_json().strip()
        name = f"edits-{sha256(recipe.encode()).hexdigest()[:8]}.json"
        written = f"cat > {name} <<'END'\n{recipe}\nEND\n"
        told = _command(subject, "whatif", f"--recipe {name}", way, counted=True)
        command = written + told if told else ""
    names = ", ".join(sorted({type(edit).__name__ for edit in edits}))
    int8 = "" if int8_kernels is None else f", int8_kernels={int8_kernels}"
    return _both(
        subject,
        "what the edits do",
        command,
        ["from quantscope import WhatIf", f"from quantscope.edit import {names}"],
        [
            "edits = [",
            *(f"    {_plain(edit)!r}," for edit in edits),
            "]",
            f"what_if = WhatIf(model, rows{_options(subject, counted=True)}, "
            f"execution={execution!r}{int8})",
            "result = what_if.answer(edits, full=True)",
        ],
    )


def bits(subject: Subject, kind: str) -> Reproduction:
    """Give the `map` of all widths, the `curves` of each tensor, or the `frontier` of a walk."""
    what, option, function, more = {
        "map": ("the map of bits", "", "bit_map", ""),
        "curves": ("each tensor at other bits", "--layers", "bit_curves", ""),
        "frontier": (
            "the walk to mixed bits",
            "--frontier compute --weights 2,3,4,6,8",
            "walk_frontier",
            ", saving='compute'",
        ),
    }[kind]
    why = "the command has no --lower-is-better" if subject.lower_is_better else ""
    return _both(
        subject,
        what,
        "" if why else _command(subject, "bits", option, counted=True, usual=_USUAL_ROWS),
        [f"from quantscope.study.bits import {function}"],
        [f"result = {function}(model, rows{_options(subject, counted=True)}{more})"],
        why=why,
    )


def _both(
    subject: Subject,
    what: str,
    command: str,
    imports: Sequence[str],
    lines: Sequence[str],
    why: str = "",
) -> Reproduction:
    if not command and not why:
        why = "its rows were chosen in two steps, which commands do not do"
    return Reproduction(what, command, _script([*imports, *_imports(subject)],
                                               [*_rows(subject), *lines]), why)  # fmt: skip


def _script(imports: Sequence[str], lines: Sequence[str]) -> str:
    ordered = sorted(dict.fromkeys(imports))
    return "\n".join([*ordered, "", *lines]) + "\n"


def _imports(subject: Subject) -> list[str]:
    names = ["samples_for", *(["stratify"] if subject.counts else [])]
    if subject.wishes != RowWishes():
        names += ["PictureWishes", "RowWishes"]
    found = [
        f"from quantscope.data import {', '.join(sorted(names))}",
        "from quantscope.model import open_model",
    ]
    return found + (["from quantscope.run import find_measure"] if subject.measure else [])


def _rows(subject: Subject) -> list[str]:
    wishes = "" if subject.wishes == RowWishes() else f", wishes={subject.wishes!r}"
    given = repr(subject.data) if subject.data else "None"
    asked = "" if given == "None" and not wishes else f", {given}{wishes}"
    return [
        f"model = open_model({subject.model!r})",
        f"rows = samples_for(model{asked})",
        *(f"rows = stratify(rows, {count})" for count in subject.counts),
    ]


def _options(subject: Subject, *, counted: bool = False) -> str:
    found = f", float_model={subject.float_model!r}" if subject.float_model else ""
    if counted and subject.measure:
        lower = ", lower_is_better=True" if subject.lower_is_better else ""
        found += f", measure=find_measure({subject.measure!r}{lower})"
    return found


def _command(
    subject: Subject, name: str, *options: str, counted: bool = False, usual: int = 0
) -> str:
    """Write a command; nothing where it could not take the same rows.

    `usual` is how many rows it takes unasked; 0 where it takes all.
    """
    if len(subject.counts) > 1:
        return ""
    count = subject.counts[0] if subject.counts else subject.rows_in_all
    how = " --evenly" if subject.counts else ""
    images = f"--images {count}{how}" if how or (usual and count > usual) else ""
    measure = f"--measure {shlex.quote(subject.measure)}" if counted and subject.measure else ""
    if measure and subject.lower_is_better:
        measure += " --lower-is-better"
    floats = f"--float {shlex.quote(subject.float_model)}" if subject.float_model else ""
    data = f"--data {shlex.quote(subject.data)}" if subject.data else ""
    rows = " ".join(wish_options(subject.wishes, beside_channels=name == "compare"))
    return _words(
        f"quantscope {name}", _model(subject), floats, data, rows, images, measure, *options
    )


def _plain(edit: Edit) -> Edit:
    """Give the edit with Python's own numbers, whose repr is what was meant."""
    return edit_from_dict(json.loads(json.dumps(edit_to_dict(edit))))


def _model(subject: Subject) -> str:
    return shlex.quote(subject.model)


def _words(*words: str) -> str:
    return " ".join(word for word in words if word)
