# ruff: noqa: N803
import marimo

__generated_with = "0.25.2"
app = marimo.App(width="full", app_title="A page of one's own")


@app.cell
def setup():
    import marimo as mo
    import traitlets

    from quantscope.app import notebook
    from quantscope.app.metrics import metrics
    from quantscope.app.opened import open_pair
    from quantscope.app.panes import header, layer
    from quantscope.app.place import Selection, first_selection
    from quantscope.app.rows import LAYER_COLUMNS, layer_rows
    from quantscope.app.session import session_for
    from quantscope.app.widgets import GraphView, Table
    from quantscope.app.widgets.graph import drawing_of

    return (
        GraphView,
        LAYER_COLUMNS,
        Selection,
        Table,
        drawing_of,
        first_selection,
        header,
        layer,
        layer_rows,
        metrics,
        mo,
        notebook,
        open_pair,
        session_for,
        traitlets,
    )


@app.cell
def about(mo, notebook):
    _text = mo.md("""
    # The playground, and a page of one's own

    The playground is a marimo notebook too: `quantscope play` runs it, `quantscope play --edit`
    opens it with its code. This one is made of the same parts, in a few cells, to start from.
    """)
    mo.vstack([notebook.style(), _text])


@app.cell
def measure(open_pair, session_for):
    session = session_for(open_pair("resnet8-int8"))
    for _ in (*session.measure(session.quick), *session.compare(session.quick)):
        pass
    return (session,)


@app.cell
def numbers(header, mo, session):
    mo.vstack([header.title(session), header.numbers(session)])


@app.cell
def look(
    GraphView,
    LAYER_COLUMNS,
    Selection,
    Table,
    drawing_of,
    first_selection,
    layer_rows,
    metrics,
    mo,
    session,
    traitlets,
):
    get_selection, _set_selection = mo.state(first_selection(session.opened.network))
    graph = GraphView(drawing=drawing_of(session.opened.network))
    table = Table(columns=list(LAYER_COLUMNS), rows=layer_rows(session))
    graph.colour(metrics(session))
    table.metrics = graph.metrics
    traitlets.link((graph, "metric"), (table, "metric"))
    traitlets.link((graph, "selection"), (table, "selection"))
    graph.selection = get_selection().to_dict()
    graph.observe(lambda c: _set_selection(Selection.from_dict(c["new"])), names="selection")
    mo.hstack([mo.ui.anywidget(graph), mo.ui.anywidget(table)], widths="equal")
    return (get_selection,)


@app.cell
def selected(get_selection, layer, session):
    layer.show(session, get_selection(), theme="light")


if __name__ == "__main__":
    app.run()
