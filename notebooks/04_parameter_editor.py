# ruff: noqa: N803
import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Change a factor and see what happens")


@app.cell
def setup():
    import marimo as mo

    from quantscope import load
    from quantscope.app.panes.scores import percent, points
    from quantscope.edit import Off, Recipe, SetScale, describe
    from quantscope.run.whatif.whatif import WhatIf

    return Off, Recipe, SetScale, WhatIf, describe, load, mo, percent, points


@app.cell
def about(mo):
    mo.md("""
    # Change a factor and see what happens

    An edit is a value: `SetScale("stem.out", factor=2)`. A model and a list of edits give a new
    model; what depends on an edited scale moves along, and nothing is changed in place. A `WhatIf`
    keeps both models and the images, so that only what an edit can reach is run again.
    """)


@app.cell
def open_it(WhatIf, load):
    what_if = WhatIf("resnet8-int8", load("sample"))
    return (what_if,)


@app.cell
def choose(mo, what_if):
    tensors = [t.name for t in what_if.editor.network.tensors if t.role != "bias"]
    tensor = mo.ui.dropdown(tensors, value="stack1.conv2.out", label="tensor")
    factor = mo.ui.slider(
        steps=[0.125, 0.25, 0.5, 0.75, 1, 1.5, 2, 4, 8, 16],
        value=4,
        label="its scale times",
        show_value=True,
        debounce=True,
    )
    off = mo.ui.switch(label="not quantized at all")
    mo.hstack([tensor, factor, off], justify="start")
    return factor, off, tensor


@app.cell
def edit(Off, SetScale, factor, off, tensor):
    edits = [Off(tensor.value) if off.value else SetScale(tensor.value, factor=factor.value)]
    return (edits,)


@app.cell
def answer(edits, what_if):
    effect = what_if.answer(edits)
    return (effect,)


@app.cell
def numbers(describe, edits, effect, mo, percent, points):
    _now, _base = effect.evaluation, effect.against_base
    mo.md(
        f"""
        {describe(edits[0])}: **{percent(_now.accuracy, _now.images)}** of {_now.images} images,
        {points(_base.delta, _base.interval_95, _now.images)} points against
        {percent(_base.second.accuracy, _now.images)} before; {len(_base.changed)} images are put
        into another class.
        """
    )


@app.cell
def moved_along(effect, mo):
    mo.ui.table(
        [
            {"tensor": change.tensor, "role": change.role, "because": change.kind}
            for change in effect.applied.changes
        ],
        selection=None,
        label="what the edit changed",
    )


@app.cell
def warned(effect, mo):
    _texts = [*(warning.text for warning in effect.applied.warnings), *effect.applied.notes]
    mo.md("\n".join(f"- {text}" for text in _texts) or "Nothing to be warned of.")


@app.cell
def keep(Recipe, edits, effect, mo):
    recipe = Recipe(effect.applied.base_digest, tuple(edits), note="made in a notebook")
    mo.hstack(
        [
            mo.download(recipe.to_json().encode(), filename="recipe.json", label="recipe"),
            mo.download(effect.applied.to_bytes, filename="edited.onnx", label="model"),
        ],
        justify="start",
    )


if __name__ == "__main__":
    app.run()
