"""List layers or tensors as rows: sort, filter, and the same selection as everywhere."""

from typing import Any

import traitlets

from quantscope.app.widgets.base import Selecting, source, style


class Table(Selecting):
    """The rows: `{key, layer, tensor, cells, sort}`. `columns` are `{label, word, right}`.

    `cells` are texts, `sort` the values that order them (null stands last). With `metrics`, a last
    column shows the one that colours the graph.
    """

    _esm = source("table")
    _css = style("table")

    columns: traitlets.List[Any] = traitlets.List().tag(sync=True)
    rows: traitlets.List[Any] = traitlets.List().tag(sync=True)
    metrics: traitlets.List[Any] = traitlets.List().tag(sync=True)
    metric = traitlets.Unicode("").tag(sync=True)
    by_tensor = traitlets.Bool(False).tag(sync=True)
    """Whether a row is one tensor, or a layer with all of its tensors."""
    label = traitlets.Unicode("layers").tag(sync=True)
