"""Offer scale, zero-point and range of a tensor: sliders, number fields, and what is refused."""

from typing import Any

import anywidget
import traitlets

from quantscope.app.widgets.base import source, style


class QParam(anywidget.AnyWidget):
    """The fields of one tensor. `spec` comes from Python, `edit` from the browser.

    So neither overwrites the other. A spec is `{tensor, locked, dtype, channels, scale, base_scale,
    scales, base_scales, factor, zero_point, base_zero_point, qmin, qmax, zero_point_is_free, lo,
    hi, base_lo, base_hi, changed, remarks, refusal, seen}`; of scale and scales, a tensor has the
    one or the other. A remark is `{kind, text}`.

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
