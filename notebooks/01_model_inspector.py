# ruff: noqa: B018
import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="What is in a quantized model")


@app.cell
def setup():
    import marimo as mo

    from quantscope.app import notebook
    from quantscope.model import bundled_models, read_network
    from quantscope.report import (
        activation_table,
        constant_table,
        layer_facts,
        layer_table,
        layer_tensors,
        network_facts,
        residual_table,
        tensor_facts,
    )

    return (
        activation_table,
        bundled_models,
        constant_table,
        layer_facts,
        layer_table,
        layer_tensors,
        mo,
        network_facts,
        notebook,
        read_network,
        residual_table,
        tensor_facts,
    )


@app.cell
def about(mo):
    mo.md("""
    # What is in a quantized model

    A model file is read into a `Network`: layers as a person thinks of them, and the quantized
    tensors between them. Nothing is executed. Give a path of your own below.
    """)


@app.cell
def choose(bundled_models, mo):
    path = mo.ui.text(str(bundled_models()["resnet8-int8"]), label="model", full_width=True)
    path
    return (path,)


@app.cell
def read(network_facts, notebook, path, read_network):
    network = read_network(path.value)
    notebook.facts(network_facts(network))
    return (network,)


@app.cell
def draw(network, notebook):
    notebook.drawing(network)


@app.cell
def tables(
    activation_table,
    constant_table,
    layer_table,
    mo,
    network,
    notebook,
    residual_table,
):
    mo.ui.tabs(
        {
            "layers": notebook.table(layer_table(network)),
            "activations": notebook.table(activation_table(network)),
            "weights and biases": notebook.table(constant_table(network)),
            "where branches meet": notebook.table(residual_table(network)),
        }
    )


@app.cell
def choose_layer(mo, network):
    names = [layer.name for layer in network.layers]
    chosen = mo.ui.dropdown(names, value=names[0], label="one layer in full")
    chosen
    return (chosen,)


@app.cell
def one_layer(chosen, layer_facts, layer_tensors, mo, network, notebook, tensor_facts):
    layer = network.layer(chosen.value)
    mo.vstack(
        [
            notebook.facts(layer_facts(network, layer)),
            mo.accordion({t.name: notebook.facts(tensor_facts(t)) for t in layer_tensors(layer)}),
        ]
    )


if __name__ == "__main__":
    app.run()
