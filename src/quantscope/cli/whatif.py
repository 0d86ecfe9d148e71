"""Run `quantscope whatif`: change a model's parameters and see what that does."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quantscope.cli.console import emit_json, messages, progress_bar, show, terminal_width
from quantscope.cli.options import (
    Batch,
    Data,
    Evenly,
    FloatModelOrProgram,
    Images,
    Int8Kernels,
    Json,
    LowerIsBetter,
    MeasureOption,
    QuantizedModel,
    load_measure,
    stated_or_shipped,
)
from quantscope.cli.outputs import Writes, careful
from quantscope.cli.rows import load_range_samples, load_samples, takes_rows

if TYPE_CHECKING:
    from quantscope.data import RowWishes
    from quantscope.edit import Applied, Edit, Editor, RangeRule, Recipe
    from quantscope.report import Skipped


@careful
@takes_rows
def command(
    model: QuantizedModel,
    float_model: FloatModelOrProgram = None,
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
        typer.Option(
            "--range",
            help="TENSOR=LOW,HIGH; scale and zero-point follow. Or how --bits chooses ranges: "
            "keep, minmax or best.",
        ),
    ] = None,
    bits: Annotated[
        list[str] | None,
        typer.Option(
            help="TARGET=BITS, 2 to 8 or 16: a TENSOR, a LAYER, weights, activations or all. The "
            "range stays, or --range best: the least mean square error; minmax: all values seen."
        ),
    ] = None,
    calibration_data: Annotated[
        str | None,
        typer.Option(
            help="With --range minmax or best: FILE.npz or a folder of pictures that activations "
            "are seen with; CIFAR-10's training images if nothing is said."
        ),
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
    images: Images = None,
    evenly: Evenly = False,
    data: Data = None,
    rows: "RowWishes | None" = None,
    execution: Annotated[
        Literal["reference", "runtime"], stated_or_shipped(", of ONNX models.")
    ] = "reference",
    measure: MeasureOption = None,
    lower_is_better: LowerIsBetter = False,
    int8_kernels: Int8Kernels = None,
    batch: Batch = None,
    sqnr: Annotated[
        bool, typer.Option("--sqnr/--no-sqnr", help="Also the SQNR of all tensors downstream.")
    ] = True,
    save_recipe: Annotated[
        Path | None,
        typer.Option(help="Write the edits and their effect as a recipe, FILE.json."),
        Writes(".json"),
    ] = None,
    note: Annotated[str, typer.Option(help="What the saved recipe shall say.")] = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the edited model: FILE.onnx, or FILE.pt2."),
        Writes(".onnx", ".pt2"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Change parameters of a quantized model and see what that does to its answers.

    Edits act in this order: those of the recipe, --set, --range, --bits, --off, --on.

    Example: quantscope whatif resnet8-int8 --set stack2.conv1.out.scale=x2 -o edited.onnx

    Example: quantscope whatif resnet8-int8 --recipe break-a-folded-relu

    Example: quantscope whatif resnet8-int8 --bits activations=4 --range best

    Example: quantscope whatif X.pt2 --range stem.relu.out=0,4 -o edited.pt2
    """
    from quantscope.edit import Recipe, describe
    from quantscope.errors import BadConfigError
    from quantscope.files import check_outputs
    from quantscope.model import open_model
    from quantscope.report import effect_lines
    from quantscope.run.whatif import WhatIf

    replayed = None if recipe is None else _recipe(recipe)
    range_, rule = _ranges(range_, bits)
    edits = _edits(set_, range_, bits, rule, off, on)
    if replayed is None and not edits:
        raise BadConfigError(
            "Nothing is to be changed; give --set, --range, --bits, --off or --recipe"
        )
    opened = open_model(model)
    chosen = load_samples(opened, data, rows, images=images, evenly=evenly)
    what_if = WhatIf(
        opened,
        chosen,
        float_model=float_model,
        measure=load_measure(measure, lower_is_better=lower_is_better),
        execution=execution,
        int8_kernels=int8_kernels,
        # The quick set is all of them: a command gives one answer, over every image that was asked
        # for.
        quick=len(chosen),
        batch=batch,
    )
    _check_kind(output, what_if.editor)
    edits = _settled(what_if.editor, edits, calibration_data)
    applied, skipped = _apply(replayed, edits, what_if.editor, other_model=other_model)
    # Only now is it known which files the edits are made from.
    check_outputs(filter(None, [output, save_recipe]), reads=applied.sources)
    with progress_bar() as progress:
        effect = what_if.effect_of(applied, progress=progress)
        effect.find_against_float(progress)
        downstream = None
        if sqnr and what_if.editor.pairing is not None:
            downstream = what_if.sqnr_of(applied, progress=progress)
    written: dict[str, Any] = {}
    if output is not None:
        written["output"] = {"path": str(output), "sha256": applied.save(output)}
    if save_recipe is not None:
        base = what_if.editor.model
        Recipe(
            base_digest=base.digest,
            edits=applied.edits,
            note=note,
            effect=effect.to_dict(),
            base_model=base.name,
        ).save(save_recipe)
        written["recipe"] = str(save_recipe)
    if as_json:
        emit_json(
            {
                **effect.to_dict(),
                "not_applied": [{"edit": describe(edit), "reason": why} for edit, why in skipped],
                "sqnr": None if downstream is None else downstream.to_dict(),
                **written,
            }
        )
        return
    show(effect_lines(effect, downstream, skipped, terminal_width()))
    for path in (output, save_recipe):
        if path is not None:
            messages.print(f"Wrote {path}", markup=False)


def _recipe(name: str) -> "Recipe":
    """Load a recipe file, or the guided recipe of that name."""
    from quantscope.edit import Recipe, guided_recipes
    from quantscope.errors import BadConfigError
    from quantscope.files import is_there

    path = Path(name)
    if is_there(path):
        return Recipe.load(path)
    guided = guided_recipes()
    if name in guided:
        return guided[name]
    raise BadConfigError(f"There is no recipe {name}; give a file, or one of: {', '.join(guided)}")


def _edits(
    set_: list[str] | None,
    range_: list[str] | None,
    bits: list[str] | None,
    rule: "RangeRule",
    off: list[str] | None,
    on: list[str] | None,
) -> "list[Edit]":
    """Read the options in the order in which their edits act."""
    from quantscope.edit import parse_bits, parse_off, parse_on, parse_range, parse_set

    return [
        *map(parse_set, set_ or ()),
        *map(parse_range, range_ or ()),
        *(parse_bits(text, rule) for text in bits or ()),
        *map(parse_off, off or ()),
        *map(parse_on, on or ()),
    ]


def _ranges(given: list[str] | None, bits: list[str] | None) -> "tuple[list[str], RangeRule]":
    """Tell the ranges of tensors from the rule for those of --bits."""
    from quantscope.edit import RANGE_RULES
    from quantscope.errors import BadConfigError

    rules = [rule for rule in RANGE_RULES if rule in map(str.strip, given or ())]
    if len(rules) > 1:
        raise BadConfigError(f"--range {' and '.join(rules)} exclude each other; give one")
    if rules and not bits:
        raise BadConfigError(f"--range {rules[0]} says how --bits chooses ranges; give --bits too")
    kept = [text for text in given or () if text.strip() not in RANGE_RULES]
    return kept, rules[0] if rules else "keep"


def _settled(editor: "Editor", edits: "list[Edit]", spec: str | None) -> "list[Edit]":
    """Find the ranges of activations that are to be chosen by their values."""
    from quantscope.errors import BadConfigError
    from quantscope.run import needs_samples, settle_ranges

    if not needs_samples(editor, edits):
        if spec is not None:
            raise BadConfigError(
                "--calibration-data is for the ranges of activations; give --bits with --range "
                "minmax or best too"
            )
        return edits
    samples = load_range_samples(editor.model, spec)
    with progress_bar() as progress:
        return list(settle_ranges(editor, edits, samples, progress=progress))


def _apply(
    recipe: "Recipe | None", edits: "list[Edit]", editor: "Editor", *, other_model: bool
) -> "tuple[Applied, Skipped]":
    """Apply the recipe's edits and then the others; give also the recipe's that did not fit."""
    from quantscope.edit import replay
    from quantscope.errors import BadConfigError

    if recipe is None:
        return editor.apply(edits), ()
    if recipe.base_digest == editor.model.digest:
        return editor.apply([*recipe.edits, *edits]), ()
    if not other_model:
        wanted = recipe.base_model or recipe.base_digest[:12]
        raise BadConfigError(
            f"The recipe is for {wanted} ({recipe.base_digest[:12]}), and {editor.model.name} "
            f"is {editor.model.digest[:12]}; give its own model, or add --other-model"
        )
    applied, skipped = replay(recipe, editor, other_model_ok=True)
    return (editor.apply([*applied.edits, *edits]) if edits else applied), skipped


def _check_kind(output: Path | None, editor: "Editor") -> None:
    """Refuse a suffix other than the one that the edited model is written with."""
    from quantscope.errors import BadConfigError

    if output is not None and output.suffix != editor.suffix:
        raise BadConfigError(
            f"Edited, {editor.model.name} is a {editor.suffix} file again; {output} has "
            f"another suffix"
        )
