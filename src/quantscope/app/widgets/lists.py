"""This module declares the widgets that show many things to pick from: rows, pictures, pixels."""

from typing import Any

import anywidget
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
    """It says whether a row is one tensor, or a layer with all of its tensors."""
    label = traitlets.Unicode("layers").tag(sync=True)


class Gallery(Selecting):
    """The cards: `{id, title, src, caption, width, height, wide, regions, error}`.

    Without `src` a card says that it is being drawn, in the place that it will take. A region is
    `{gid, x0, x1, y0, y1}`; `places` says what each `gid` selects. They are shown under `tab` only.
    """

    _esm = source("gallery")
    _css = style("gallery")

    cards: traitlets.List[Any] = traitlets.List().tag(sync=True)
    tab = traitlets.Unicode("").tag(sync=True)
    places = traitlets.Dict().tag(sync=True)


class Thumbnails(anywidget.AnyWidget):
    """The samples: `items` are `{index, src, text, label, float, quantized, wrong, title}`.

    Those of the page; one that is no picture has a `text` in place of `src`. `filters` are
    `{key, label, count}`. `filter`, `page` and `chosen` (an index in the full set) are set on both
    sides.
    """

    _esm = source("thumbnails")
    _css = style("thumbnails")

    filters: traitlets.List[Any] = traitlets.List().tag(sync=True)
    filter = traitlets.Unicode("all").tag(sync=True)
    items: traitlets.List[Any] = traitlets.List().tag(sync=True)
    page = traitlets.Int(0).tag(sync=True)
    pages = traitlets.Int(1).tag(sync=True)
    chosen = traitlets.Int(-1).tag(sync=True)


class TrialTable(anywidget.AnyWidget):
    """The rows: `{key, cells, sort, note, opened}`. It asks with `{"do": "open", "key": ...}`.

    `columns` are `{label, word, right}`. A row without a `key` could not be had and cannot be
    opened.
    """

    _esm = source("trials")
    _css = style("trials")

    columns: traitlets.List[Any] = traitlets.List().tag(sync=True)
    rows: traitlets.List[Any] = traitlets.List().tag(sync=True)


class FeatureMap(anywidget.AnyWidget):
    """The pixels. `values` are rows of integers; `low` and `high` the range that they can have.

    `is_vector`: rows and columns are only how it is drawn, values are counted through.
    `place` is `[channel, y, x]`; another channel is a new `place`, answered with new `values`.
    """

    _esm = source("feature_map")
    _css = style("feature_map")

    values: traitlets.List[Any] = traitlets.List().tag(sync=True)
    low = traitlets.Int(0).tag(sync=True)
    high = traitlets.Int(255).tag(sync=True)
    channels = traitlets.Int(1).tag(sync=True)
    place: traitlets.List[int] = traitlets.List([0, 0, 0]).tag(sync=True)
    is_vector = traitlets.Bool(False).tag(sync=True)
    title = traitlets.Unicode("").tag(sync=True)
