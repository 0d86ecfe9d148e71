# ruff: noqa: B018
import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="What quantization changes, and where")


@app.cell
def setup():
    import marimo as mo

    from quantscope import evaluate, kernel_gap, load, paired
    from quantscope.report.figures import channel_error, error_sources, sqnr_along
    from quantscope.run.compare.compare import compare
    from quantscope.run.compare.reading import reading

    return (
        channel_error,
        compare,
        error_sources,
        evaluate,
        kernel_gap,
        load,
        mo,
        paired,
        reading,
        sqnr_along,
    )


@app.cell
def about(mo):
    mo.md("""
    # What quantization changes, and where

    A quantized model has two accuracies: by the arithmetic that its file states (*reference*), and
    by the kernels that this CPU runs (*runtime*). Both are compared with the float model image by
    image. Then the two networks are compared tensor by tensor.
    """)


@app.cell
def choose(mo):
    model = mo.ui.dropdown(["resnet8-int8", "resnet8-uint8"], value="resnet8-int8", label="model")
    count = mo.ui.slider(50, 1000, 50, value=200, label="images", show_value=True, debounce=True)
    mo.hstack([model, count], justify="start")
    return count, model


@app.cell
def measure(count, evaluate, kernel_gap, load, model):
    images = load("sample").take(count.value)
    baseline = evaluate("resnet8", images, execution="reference")
    gap = kernel_gap(model.value, images)
    return baseline, gap, images


@app.cell
def accuracies(baseline, gap, mo, paired):
    _deltas = [paired(found, baseline) for found in (gap.reference, gap.runtime)]
    _rows = [
        {
            "execution": delta.first.execution,
            "accuracy": f"{delta.first.accuracy:.1%}",
            "against float": f"{delta.delta:+.1%}",
            "images in another class": len(delta.changed),
        }
        for delta in _deltas
    ]
    mo.vstack(
        [
            mo.ui.table(_rows, selection=None, label=f"float: {baseline.accuracy:.1%}"),
            mo.md(gap.explanation() or "The two executions differ by no more than chance."),
        ]
    )


@app.cell
def by_tensor(compare, images, model):
    comparison = compare(model.value, images)
    return (comparison,)


@app.cell
def along(comparison, sqnr_along):
    sqnr_along(comparison)


@app.cell
def sources(comparison, error_sources):
    error_sources(comparison, per_input=True)


@app.cell
def stands_out(comparison, mo, reading):
    mo.md("\n".join(f"- {line}" for line in reading(comparison)) or "Nothing stands out.")


@app.cell
def choose_tensor(comparison, mo):
    names = [t.name for t in comparison.activations if len(t.channels) > 1 and not t.exact]
    tensor = mo.ui.dropdown(names, value=names[0], label="channels of")
    tensor
    return (tensor,)


@app.cell
def channels(channel_error, comparison, tensor):
    channel_error(comparison[tensor.value])


if __name__ == "__main__":
    app.run()
