# mypy: ignore-errors
# ruff: noqa: N803, PLR1711
# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""The page of `quantscope play`. Cells are thin: each calls one function of the package."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="full", app_title="quantscope", css_file="style.css")


@app.cell
def setup():
    import marimo as mo

    from quantscope.app.page import Page, Setters, token_for
    from quantscope.app.panes import (
        header,
        help,
        layer,
        layers,
        residuals,
        sample_maps,
        what_if,
    )
    from quantscope.app.place import begin_at

    return (
        Page,
        Setters,
        begin_at,
        header,
        help,
        layer,
        layers,
        mo,
        residuals,
        sample_maps,
        token_for,
        what_if,
    )


@app.cell
def state(Page, Setters, begin_at, mo, token_for):
    begun = begin_at(mo.cli_args().to_dict(), mo.query_params().to_dict())
    get_selection, _set_selection = mo.state(None)
    get_tab, _set_tab = mo.state(begun.place.tab)
    get_model, _set_model = mo.state(0)
    get_numbers, _set_numbers = mo.state(0)
    get_lab, _set_lab = mo.state(0)
    get_sample, _set_sample = mo.state(0)
    get_edits, _set_edits = mo.state(())
    get_theme, _set_theme = mo.state("")
    get_topic, _set_topic = mo.state("")
    page = Page(
        begun,
        Setters(
            selection=_set_selection,
            tab=_set_tab,
            model=_set_model,
            numbers=_set_numbers,
            lab=_set_lab,
            sample=_set_sample,
            edits=_set_edits,
            theme=_set_theme,
            topic=_set_topic,
        ),
    )
    session_token = token_for(page)
    page.begin()
    return (
        get_edits,
        get_sample,
        get_lab,
        get_model,
        get_numbers,
        get_selection,
        get_tab,
        get_theme,
        get_topic,
        page,
        session_token,
    )


@app.cell
def chrome(page):
    page.views["chrome"]
    return


@app.cell
def head_title(get_model, header, page):
    header.title(page.session, error=page.error if get_model() == 0 else "")
    return


@app.cell
def head_open(page):
    page.views["opener"]
    return


@app.cell
def head_numbers(get_model, get_numbers, header, page):
    get_model(), get_numbers()
    header.numbers(page.session)
    return


@app.cell
def head_job(page):
    page.views["job"]
    return


@app.cell
def head_edits(page):
    page.views["strip"]
    return


@app.cell
def left(mo, page):
    mo.vstack([page.views["way"], page.views["graph"], page.views["layers"]], gap=0.6)
    return


@app.cell
def tabs(page):
    page.views["tabs"]
    return


@app.cell
def take(page):
    page.views["take"]
    return


@app.cell
def pane_diagnose(get_edits, get_model, get_numbers, get_selection, get_tab, mo, page):
    mo.stop(get_tab() != "Diagnose")
    get_edits(), get_model(), get_numbers()
    page.doctor.show(get_selection() or page.selection)
    return


@app.cell
def pane_layer(get_edits, get_numbers, get_selection, get_tab, get_theme, layer, mo, page):
    mo.stop(get_tab() != "Layer")
    get_edits(), get_numbers()
    _selection = get_selection() or page.selection
    page.paint(layer.wanted(page.seen, _selection, theme=get_theme()))
    layer.show(page.seen, _selection, theme=get_theme(), edited=page.edited)
    return


@app.cell
def pane_network(get_edits, get_tab, layers, mo, page):
    mo.stop(get_tab() != "Network")
    get_edits()
    layers.show(page.views["tensors"], page.views["pairs"], page.edited)
    return


@app.cell
def paint_network(get_numbers, get_tab, get_theme, layers, mo, page):
    mo.stop(get_tab() != "Network")
    get_numbers()
    page.paint(layers.wanted(page.seen, theme=get_theme()))
    return


@app.cell
def pane_samples(get_edits, get_model, get_tab, mo, page):
    mo.stop(get_tab() != "Samples")
    get_edits(), get_model()
    page.samples.show()
    return


@app.cell
def paint_samples(
    get_edits, get_sample, get_numbers, get_selection, get_tab, get_theme, sample_maps, mo, page
):
    mo.stop(get_tab() != "Samples")
    get_edits(), get_sample(), get_numbers(), get_selection()
    _about = page.session, page.samples.picked, page.selection, page.edited
    page.paint(sample_maps.wanted(*_about, theme=get_theme()))
    return


@app.cell
def pane_what_if(get_model, get_tab, mo, page, what_if):
    mo.stop(get_tab() != "What if")
    get_model()
    what_if.show(page.bench)
    return


@app.cell
def paint_what_if(get_model, get_tab, get_theme, mo, page):
    mo.stop(get_tab() != "What if")
    get_model()
    page.bench.paint(get_theme())
    return


@app.cell
def pane_residuals(get_edits, get_numbers, get_selection, get_tab, get_theme, mo, page, residuals):
    mo.stop(get_tab() != "Residuals")
    get_edits(), get_numbers()
    page.paint(residuals.wanted(page.seen, theme=get_theme()))
    residuals.show(page.seen, get_selection() or page.selection, page.edited)
    return


@app.cell
def pane_trace(get_edits, get_model, get_tab, mo, page):
    mo.stop(get_tab() != "Trace")
    get_edits(), get_model()
    page.tracer.show()
    return


@app.cell
def pane_bits(get_model, get_tab, mo, page):
    mo.stop(get_tab() != "Bits")
    get_model()
    page.bits.show()
    return


@app.cell
def paint_bits(get_lab, get_model, get_tab, get_theme, mo, page):
    mo.stop(get_tab() != "Bits")
    get_lab(), get_model()
    page.paint(page.bits.wanted(get_theme()))
    return


@app.cell
def pane_quantize(get_model, get_tab, mo, page):
    mo.stop(get_tab() != "Quantize")
    get_model()
    page.lab.show()
    return


@app.cell
def paint_quantize(get_lab, get_model, get_tab, get_theme, mo, page):
    mo.stop(get_tab() != "Quantize")
    get_lab(), get_model()
    page.paint(page.lab.wanted(get_theme()))
    return


@app.cell
def pane_help(get_tab, get_topic, help, mo):
    mo.stop(get_tab() != "Help")
    help.show(get_topic())
    return


@app.cell
def pictures(get_tab, mo, page):
    mo.stop(get_tab() in ("Diagnose", "Trace", "Help"))
    page.views["gallery"]
    return


if __name__ == "__main__":
    app.run()
