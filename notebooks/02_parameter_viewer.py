# ruff: noqa: B018
import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="What a scale and a zero-point do")


@app.cell
def setup():
    import marimo as mo

    from quantscope.app import notebook
    from quantscope.arithmetic import dequantize, quantize
    from quantscope.model import bundled_models, pair_networks, read_network
    from quantscope.report import channel_table, tensor_facts
    from quantscope.report.figures import weight_histograms, weights_heatmap
    from quantscope.run.histograms.histograms import weight_histogram

    return (
        bundled_models,
        channel_table,
        dequantize,
        mo,
        notebook,
        pair_networks,
        quantize,
        read_network,
        tensor_facts,
        weight_histogram,
        weight_histograms,
        weights_heatmap,
    )


@app.cell
def about(mo):
    mo.md(r"""
    # What a scale and a zero-point do

    A quantized tensor is integers $q$ with a scale $s$ and a zero-point $z$. They stand for
    $r = (q - z) \cdot s$, and a real number becomes
    $q = \mathrm{clamp}(\mathrm{round}(r / s) + z)$.
    Choose an activation and move a value through it.
    """)


@app.cell
def read(bundled_models, pair_networks, read_network):
    network = read_network(bundled_models()["resnet8-int8"])
    float_network = read_network(bundled_models()["resnet8"])
    pairing = pair_networks(float_network, network)
    return network, pairing


@app.cell
def choose(mo, network):
    activations = {t.name: t for t in network.tensors if t.role == "activation"}
    activation = mo.ui.dropdown(activations, value="stem.out", label="activation")
    activation
    return (activation,)


@app.cell
def facts_of_it(activation, notebook, tensor_facts):
    notebook.facts(tensor_facts(activation.value))


@app.cell
def choose_value(activation, mo):
    low, high = (float(end) for end in activation.value.params.representable_range)
    margin = 0.2 * (high - low)
    real = mo.ui.slider(
        low - margin, high + margin, (high - low) / 1000, value=high / 3.1, label="a real value"
    )
    real
    return (real,)


@app.cell
def through(activation, dequantize, mo, quantize, real):
    params = activation.value.params
    integer = quantize(real.value, params)
    back = float(dequantize(integer, params))
    mo.md(
        f"""
        **{real.value:.5g}** → integer **{int(integer)}** → **{back:.5g}**:
        an error of **{back - real.value:+.5g}**,
        {abs(back - real.value) / float(params.scale):.2f} steps
        """
    )


@app.cell
def about_weights(mo):
    mo.md("""
    ## Weights

    They are rounded once, when the model is quantized, and mostly with a scale for each output
    channel. The histogram shows them as float, int8 and uint8, in the same bins.
    """)


@app.cell
def choose_weight(mo, network):
    weights = {t.name: t for t in network.tensors if t.role == "weight"}
    weight = mo.ui.dropdown(weights, value="stack2.conv1.weight", label="weights")
    weight
    return (weight,)


@app.cell
def histogram(pairing, weight, weight_histogram, weight_histograms):
    weight_histograms(weight_histogram(weight.value, pairing.by_name.get(weight.value.name)))


@app.cell
def heatmap(network, pairing, weight, weights_heatmap):
    weights_heatmap(network, weight.value.name, pairing)


@app.cell
def channels(channel_table, notebook, weight):
    notebook.table(channel_table(weight.value))


if __name__ == "__main__":
    app.run()
