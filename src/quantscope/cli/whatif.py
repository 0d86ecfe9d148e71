"""`quantscope whatif`"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quantscope.cli.console import console, emit_json, messages, progress_bar

if TYPE_CHECKING:
    from quantscope.edit import Applied, Change, Edit, Editor, Recipe
    from quantscope.model import QuantParams
    from quantscope.report.text_table import TextTable
    from quantscope.run import Evaluation, PairedDelta
    from quantscope.run.whatif import DownstreamSqnr, Effect

    Skipped = Sequence[tuple[Edit, str]]

_MOST_CLASSES = 20


def command(
    model: Annotated[str, typer.Argument(help="A quantized ONNX file, or a bundled model.")],
    float_model: Annotated[
        str | None,
        typer.Option("--float", help="The float model; bundled quantized models know theirs."),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="A recipe FILE.json, or the name of a guided one; its edits come first."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="TENSOR.scale=NUMBER, TENSOR.scale=xFACTOR or TENSOR.zero_point=INTEGER."
        ),
    ] = None,
    range_: Annotated[
        list[str] | None,
        typer.Option("--range", help="TENSOR=LOW,HIGH; scale and zero-point follow."),
    ] = None,
    off: Annotated[
        list[str] | None,
        typer.Option(help="No quantization of a LAYER, a TENSOR, all weights, all activations."),
    ] = None,
    on: Annotated[
        list[str] | None, typer.Option(help="Takes an --off of the recipe back for one of them.")
    ] = None,
    other_model: Annotated[
        bool,
        typer.Option("--other-model", help="Replay the recipe though it is for another model."),
    ] = False,
    images: Annotated[int | None, typer.Option(help="Only the first N images.")] = None,
    data: Annotated[
        str, typer.Option(help="sample (1,000 bundled test images), full (10,000), or FILE.npz.")
    ] = "sample",
    execution: Annotated[
        Literal["reference", "runtime"],
        typer.Option(
            help="reference: the arithmetic that the file states. runtime: the fused kernels that "
            "ship."
        ),
    ] = "reference",
    int8_kernels: Annotated[
        bool | None,
        typer.Option(
            "--int8-kernels/--no-int8-kernels",
            help="Set onnxruntime's session.qdqisint8allowed; left out, the platform decides.",
        ),
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Images executed at once.")] = None,
    sqnr: Annotated[
        bool, typer.Option("--sqnr/--no-sqnr", help="Also the SQNR of all tensors downstream.")
    ] = True,
    save_recipe: Annotated[
        Path | None, typer.Option(help="Write the edits and their effect as a recipe, FILE.json.")
    ] = None,
    note: Annotated[str, typer.Option(help="What the saved recipe shall say.")] = "",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the edited model, FILE.onnx.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Change parameters of a quantized model and see what that does to its answers.

    Edits act in this order: those of the recipe, --set, --range, --off, --on.

    Example: quantscope whatif resnet8-int8 --set stack2.conv1.out.scale=x2 -o edited.onnx

    Example: quantscope whatif resnet8-int8 --recipe break-a-folded-relu
    """
    from quantscope.data import load
    from quantscope.edit import Recipe
    from quantscope.errors import BadConfigError
    from quantscope.run.whatif import WhatIf

    opened = None if recipe is None else _recipe(recipe)
    edits = _edits(set_, range_, off, on)
    if opened is None and not edits:
        raise BadConfigError("Nothing is to be changed; give --set, --range, --off or --recipe")
    _check_outputs(output, save_recipe)
    chosen = load(data)
    if images is not None:
        chosen = chosen.take(images)
    what_if = WhatIf(
        model,
        chosen,
        float_model=float_model,
        execution=execution,
        int8_kernels=int8_kernels,
        quick=len(chosen),
        batch=batch,
    )
    applied, skipped = _applied(opened, edits, what_if.editor, other_model=other_model)
    _check_not_a_source(applied, output, save_recipe)
    with progress_bar() as progress:
        effect = what_if.effect_of(applied, progress=progress)
        downstream = None
        if sqnr and what_if.editor.pairing is not None:
            downstream = what_if.downstream_sqnr(applied.edits, progress=progress)
    written: dict[str, Any] = {}
    if output is not None:
        written["output"] = {"path": str(output), "sha256": applied.save(output)}
    if save_recipe is not None:
        file = what_if.editor.file
        Recipe(
            base_digest=file.digest,
            edits=applied.edits,
            note=note,
            effect=effect.to_dict(),
            base_model=file.path.name,
        ).save(save_recipe)
        written["recipe"] = str(save_recipe)
    if as_json:
        emit_json(
            {
                **effect.to_dict(),
                "not_applied": [{"edit": _words(edit), "reason": why} for edit, why in skipped],
                "sqnr": None if downstream is None else downstream.to_dict(),
                **written,
            }
        )
        return
    width = console.width if console.is_terminal else None
    for line in lines(effect, downstream, skipped, width):
        console.print(line, markup=False)
    for path in (output, save_recipe):
        if path is not None:
            messages.print(f"Wrote {path}", markup=False)


def lines(
    effect: "Effect",
    sqnr: "DownstreamSqnr | None" = None,
    skipped: "Skipped" = (),
    width: int | None = None,
) -> Iterator[str]:
    """The answer as text."""
    from quantscope.report.wording import printable

    applied, edited = effect.applied, effect.evaluation
    yield (
        f"{effect.against_base.second.model} with {_many(len(applied.edits), 'edit')}, "
        f"{edited.execution} execution, {edited.images:,} images of {edited.data}"
    )
    yield from (f"  {printable(_words(edit))}" for edit in applied.edits)
    if skipped:
        yield "not applied"
        yield from (f"  {printable(_words(edit))}: {printable(why)}" for edit, why in skipped)
    yield from (f"! {printable(warning.text)}" for warning in applied.warnings)
    yield ""
    yield from _accuracies(effect)
    if applied.changes:
        yield ""
        table = _changes(applied.changes)
        yield table.title
        yield from table.lines(width)
    if effect.kernels_changed:
        yield ""
        yield "kernels that ship, before and now"
        for layer, before, after in effect.kernels_changed:
            yield f"  {printable(layer)}: {before}, now {after}"
    if sqnr is not None:
        yield ""
        yield from _sqnr(sqnr, width)
    yield from (printable(text) for text in applied.notes)


def _accuracies(effect: "Effect") -> Iterator[str]:
    base, floats = effect.against_base, effect.against_float
    rows = [("edited", effect.evaluation), ("original", base.second)]
    if floats is not None:
        rows.append(("float", floats.second))
    for name, evaluation in rows:
        yield f"{name:<9} {_accuracy(evaluation)}"
    if effect.unchanged:
        yield "changes nothing at the output: every score of every image is as it was"
        return
    yield f"edited against original: {_points(base)}"
    changes = sorted((c.delta, c.name) for c in base.per_class if c.delta)
    if changes and len(base.per_class) <= _MOST_CLASSES:
        text = ", ".join(f"{name} {100 * delta:+.1f}" for delta, name in changes)
        yield f"by class, in points: {text}"
    if floats is not None:
        yield f"edited against float: {_points(floats)}"


def _accuracy(evaluation: "Evaluation") -> str:
    low, high = evaluation.interval_95
    nan = f", {evaluation.not_finite} images with a NaN score" if evaluation.not_finite else ""
    return f"{evaluation.accuracy:.2%}  [{low:.2%}, {high:.2%}] at 95 %{nan}"


def _points(delta: "PairedDelta") -> str:
    low, high = (100 * bound for bound in delta.interval_95)
    return (
        f"{100 * delta.delta:+.2f} points [{low:+.2f}, {high:+.2f}] at 95 %, "
        f"{_many(len(delta.gained), 'image')} gained, {len(delta.lost)} lost, "
        f"{len(delta.changed)} classified differently, McNemar exact p = {delta.p_value:.3g}"
    )


def _changes(changes: "Sequence[Change]") -> "TextTable":
    from quantscope.report.text_table import Column, TextTable
    from quantscope.report.wording import printable

    return TextTable(
        "what changed in the model",
        (
            Column("tensor"),
            Column("because"),
            Column("scale"),
            Column("zero-point"),
            Column("integers", right=True),
        ),
        tuple(
            (
                printable(change.tensor),
                {"edit": "edited", "shared": "shared parameters"}.get(change.kind, change.kind),
                _arrow(change.before, change.after, "scale"),
                _arrow(change.before, change.after, "zero_point"),
                f"{change.integers_changed:,}" if change.integers_changed else "",
            )
            for change in changes
        ),
    )


def _arrow(before: "QuantParams | None", after: "QuantParams | None", what: str) -> str:
    old, new = (_numbers(params, what) for params in (before, after))
    return new if old == new else f"{old} → {new}"


def _numbers(params: "QuantParams | None", what: str) -> str:
    if params is None:
        return "float" if what == "scale" else "–"
    values = getattr(params, what).reshape(-1)
    low, high = values.min(), values.max()
    return f"{low:.4g}" if low == high else f"{low:.4g}..{high:.4g}"


def _sqnr(sqnr: "DownstreamSqnr", width: int | None) -> Iterator[str]:
    from quantscope.report.text_table import Column, TextTable
    from quantscope.report.wording import printable

    known = [(n, b, a) for n, b, a in sqnr.changes if a is not None or b is not None]
    both = [(a - b, name) for name, b, a in known if a is not None and b is not None]
    if both:
        change, name = min(both)
        yield (
            f"SQNR downstream in dB, against the float network; "
            f"{'the largest loss' if change < 0 else 'the smallest gain'} is "
            f"{abs(change):.1f} at {printable(name)}"
        )
        right = [Column(heading, right=True) for heading in ("before", "now", "change")]
        rows = tuple(
            (
                printable(name),
                _decibels(before),
                _decibels(after),
                "" if before is None or after is None else f"{after - before:+.2f}",
            )
            for name, before, after in known
        )
        yield from TextTable("SQNR", (Column("tensor"), *right), rows).lines(width)
    else:
        yield "no SQNR downstream is to be seen"
    if sqnr.unseen:
        reasons: dict[str, list[str]] = {}
        for tensor in sqnr.unseen:
            reasons.setdefault(tensor.reason, []).append(printable(tensor.name))
        yield from (f"  {', '.join(names)}: {why}" for why, names in reasons.items())


def _decibels(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _many(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'s' * (count != 1)}"


def _words(edit: "Edit") -> str:
    from quantscope.edit import describe

    return describe(edit)


def _recipe(name: str) -> "Recipe":
    from quantscope.edit import Recipe, guided_recipes
    from quantscope.errors import BadConfigError

    path = Path(name)
    if path.exists():
        return Recipe.load(path)
    guided = guided_recipes()
    if name in guided:
        return guided[name]
    raise BadConfigError(f"There is no recipe {name}; give a file, or one of: {', '.join(guided)}")


def _edits(
    set_: list[str] | None, range_: list[str] | None, off: list[str] | None, on: list[str] | None
) -> "list[Edit]":
    from quantscope.edit import parse_off, parse_on, parse_range, parse_set

    return [
        *map(parse_set, set_ or ()),
        *map(parse_range, range_ or ()),
        *map(parse_off, off or ()),
        *map(parse_on, on or ()),
    ]


def _applied(
    recipe: "Recipe | None", edits: "list[Edit]", editor: "Editor", *, other_model: bool
) -> "tuple[Applied, Skipped]":
    from quantscope.edit import replay
    from quantscope.errors import BadConfigError

    if recipe is None:
        return editor.apply(edits), ()
    if recipe.base_digest != editor.file.digest and not other_model:
        wanted = recipe.base_model or recipe.base_digest[:12]
        raise BadConfigError(
            f"The recipe is for {wanted} ({recipe.base_digest[:12]}), and {editor.file.path.name} "
            f"is {editor.file.digest[:12]}; give its own model, or add --other-model"
        )
    applied, skipped = replay(recipe, editor, other_model_ok=other_model)
    return (editor.apply([*applied.edits, *edits]) if edits else applied), skipped


def _check_outputs(output: Path | None, save_recipe: Path | None) -> None:
    from quantscope.errors import BadConfigError
    from quantscope.files import check_output

    if output is not None and output.suffix != ".onnx":
        raise BadConfigError(f"The edited model is an .onnx file; {output} has another suffix")
    if save_recipe is not None and save_recipe.suffix != ".json":
        raise BadConfigError(f"A recipe is a .json file; {save_recipe} has another suffix")
    for path in (output, save_recipe):
        if path is not None:
            check_output(path)


def _check_not_a_source(applied: "Applied", *outputs: Path | None) -> None:
    from quantscope.errors import BadConfigError

    sources = {source.resolve() for source in applied.sources}
    for path in outputs:
        if path is not None and path.resolve() in sources:
            raise BadConfigError(
                f"{path} is a model that these edits are for; give another name to write to"
            )
