# mypy: ignore-errors
# ruff: noqa: B018, PLR1711
"""Show what a slider costs without a playground: each move rebuilds the session and runs all.

benchmarks/playground.py opens it with `marimo run`. It is what one writes first, one cell with
onnx and onnxruntime; as the page does, it computes what the file states, without fused kernels.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App()


@app.cell
def setup():
    import marimo as mo
    import numpy as np
    import onnx
    import onnxruntime as ort

    from quantscope.data import load_sample
    from quantscope.model import bundled_models

    model = onnx.load(bundled_models()["resnet8-int8"])
    sample = load_sample().take(256)
    images = sample.images.astype(np.float32)
    initializer = next(
        one for one in model.graph.initializer if one.name == "stack2.relu1.out_scale"
    )
    scale = float(onnx.numpy_helper.to_array(initializer))
    return images, initializer, mo, model, np, onnx, ort, sample, scale


@app.cell
def slider(mo, np, scale):
    chosen = mo.ui.slider(steps=list(scale * 2.0 ** np.linspace(-5, 5, 101)), value=scale)
    chosen
    return (chosen,)


@app.cell
def answer(chosen, images, initializer, mo, model, np, onnx, ort, sample):
    new = onnx.numpy_helper.from_array(np.float32(chosen.value), initializer.name)
    initializer.CopyFrom(new)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options)
    (scores,) = session.run(None, {session.get_inputs()[0].name: images})
    accuracy = (scores.argmax(1) == sample.labels).mean()
    mo.Html(f'<b data-testid="accuracy">{100 * accuracy:.1f} %</b>')
    return


if __name__ == "__main__":
    app.run()
