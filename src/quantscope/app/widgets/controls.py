"""This module declares the widgets that a person sets factors with, and those that answer them."""

from typing import Any

import anywidget
import traitlets

from quantscope.app.widgets.base import source, style


class Choice(anywidget.AnyWidget):
    """A row of buttons. `options` are `{key, label, word}`; `value` is the chosen key."""

    _esm = source("choice")
    _css = style("choice")

    label = traitlets.Unicode("").tag(sync=True)
    options: traitlets.List[Any] = traitlets.List().tag(sync=True)
    value = traitlets.Unicode("").tag(sync=True)


class QParam(anywidget.AnyWidget):
    """The fields of one tensor. `spec` comes from Python, `edit` from the browser.

    So neither overwrites the other. A spec is `{tensor, locked, dtype, channels, scale, base_scale,
    scales, base_scales, factor, zero_point, base_zero_point, qmin, qmax, zero_point_is_free, bits,
    base_bits, widths, lo, hi, base_lo, base_hi, changed, remarks, refusal, seen}`; of scale and
    scales, a tensor has the one or the other. A remark is `{kind, text}`.

    `edit` is `{steps}`, each `{n, tensor, what, value, ...}`: all gestures after the spec's `seen`.
    The kernel merges queued updates of a trait, and none of them may be lost by that. `value` is a
    number, or what was typed.
    """

    _esm = source("qparam")
    _css = style("qparam")

    spec = traitlets.Dict().tag(sync=True)
    edit = traitlets.Dict().tag(sync=True)

    def unseen(self) -> list[dict[str, Any]]:
        """List the gestures that the spec does not know of, in their order."""
        seen = self.spec.get("seen", 0)
        return [step for step in self.edit.get("steps", []) if step["n"] > seen]


class HistRange(anywidget.AnyWidget):
    """A histogram with two handles. `data` comes from Python, `edit` from the browser.

    While a handle is dragged, data waits. Data is `{tensor, edges, counts, drawn, values, lo, hi,
    base_lo, base_hi, movable, symmetric, message}`: `counts` are of what may be clipped and are
    filled, `drawn` is an outline over them. `edit` is `{tensor, lo, hi, n}`. Without edges, the
    message says why.
    """

    _esm = source("hist_range")
    _css = style("hist_range")

    data = traitlets.Dict().tag(sync=True)
    edit = traitlets.Dict().tag(sync=True)


class Switches(anywidget.AnyWidget):
    """The switches: `main` and `layers` are `{key, kind, label, hint, state}`.

    `state` is "on", "off" or "some". It asks with the message `{"do": "switch", "kind": ..., "key":
    ..., "on": ...}`; `kind` is "tensor", "layer" or "role". `error` is the line for what was
    refused.
    """

    _esm = source("switches")
    _css = style("switches")

    main: traitlets.List[Any] = traitlets.List().tag(sync=True)
    layers: traitlets.List[Any] = traitlets.List().tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)


class Recipes(anywidget.AnyWidget):
    """The recipes to load. `guided` are `{key, title, note, model}`.

    It asks with the messages `{"do": "guided", "key"}`, `{"do": "file", "name", "text"}`, `{"do":
    "fitting"}` (what can be applied of the refused one) and `{"do": "open"}` (its own model).
    `refused` is `{text, model}` for the recipe that was asked for last; `said` are lines about the
    one that was loaded.
    """

    _esm = source("recipes")
    _css = style("recipes")

    guided: traitlets.List[Any] = traitlets.List().tag(sync=True)
    note = traitlets.Unicode("").tag(sync=True)
    refused = traitlets.Dict().tag(sync=True)
    said: traitlets.List[Any] = traitlets.List().tag(sync=True)
    loaded = traitlets.Unicode("").tag(sync=True)
    """The key of the guided recipe whose edits are in force."""


class Flips(anywidget.AnyWidget):
    """Groups of pictures: `{key, title, count, images}`.

    An image is `{index, src, label, before, after}`; a group may hold fewer images than its count.
    """

    _esm = source("flips")
    _css = style("flips")

    groups: traitlets.List[Any] = traitlets.List().tag(sync=True)
    busy = traitlets.Bool(False).tag(sync=True)


class PtqForm(anywidget.AnyWidget):
    """The form. It asks with `{"do": "try" | "sizes" | "methods", "values": ...}`.

    `fields` are `{key, label, word, kind, options, value, framework}`; `kind` is "choice",
    "number", "check" or "text", and a field with a `framework` is shown for that one only.
    """

    _esm = source("ptq_form")
    _css = style("ptq_form")

    fields: traitlets.List[Any] = traitlets.List().tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)
    busy = traitlets.Bool(False).tag(sync=True)
