"""Compute for page 03 the head: ten logits of one image."""

import numpy as np

from doc_numbers.executed import EXAMPLE, Executed, Step
from doc_numbers.formatting import Fields, columns, rows
from quantscope.data import load_sample


def fields(run: Executed) -> Fields:
    head = run.steps["head"]
    logits = head.output[EXAMPLE].astype(np.int64)
    best = int(logits.argmax())
    order = np.argsort(-logits, kind="stable")
    parts = head.parts((best,))
    names = load_sample().class_names
    x, w = head.spec.sides
    (multiplier,) = parts.multipliers
    scales = w.params.scale.astype(np.float64)
    return {
        "head.x_scale": float(x.params.scale),
        "head.x_zero_point": x.zero_point,
        "head.y_scale": float(head.y.params.scale),
        "head.y_zero_point": head.zero_point,
        "head.features": len(parts.terms),
        "head.classes": len(logits),
        "head.best": best,
        "head.best_class": names[best],
        "head.second": int(order[1]),
        "head.second_class": names[int(order[1])],
        "head.best_q": int(logits[best]),
        "head.second_q": int(logits[order[1]]),
        "head.margin": int(logits[best] - logits[order[1]]),
        "head.margin_real": float(logits[best] - logits[order[1]]) * float(head.y.params.scale),
        "head.terms": _products([term.product for term in parts.terms]),
        "head.inputs": _products([term.x for term in parts.terms]),
        "head.weights": _products([int(term.w or 0) for term in parts.terms]),
        "head.sum": int(parts.sum or 0),
        "head.bias": int(parts.bias or 0),
        "head.accumulator": int(parts.accumulator or 0),
        "head.multiplier": multiplier.float64,
        "head.steps": float(parts.exact_steps),
        "head.rounded": round(parts.exact_steps),
        "head.best_real": head.real(int(logits[best])),
        "head.rows": _rows(head, names),
        "head.finest_scale": float(scales.min()),
        "head.coarsest_scale": float(scales.max()),
        "head.scale_ratio": float(scales.max() / scales.min()),
        "head.macs": int(run.network.layer("head").macs or 0),
        **_argmax(head),
    }


def _products(values: list[int]) -> str:
    return columns([values[start : start + 8] for start in range(0, len(values), 8)])


def _rows(head: Step, names: tuple[str, ...]) -> str:
    found = []
    for column in range(head.output.shape[1]):
        parts = head.parts((column,))
        q = int(head.output[EXAMPLE, column])
        found.append(
            (
                column,
                names[column],
                parts.sum or 0,
                parts.bias or 0,
                parts.accumulator or 0,
                f"{parts.multipliers[0].float64:.9g}",
                f"{float(parts.exact_steps):.4f}",
                q,
                f"{head.real(q):.4f}",
            )
        )
    return rows(found)


def _argmax(head: Step) -> Fields:
    logits, accumulators = head.output.astype(np.int64), head.accumulators()
    top = np.sort(logits, axis=1)[:, -2:]
    chosen = logits.argmax(axis=1)
    raw = accumulators.argmax(axis=1)
    ends = [int((logits == end).sum()) for end in (head.y.params.qmin, head.y.params.qmax)]
    return {
        "argmax.ties": int((top[:, 0] == top[:, 1]).sum()),
        "argmax.accumulators_differ": int((raw != chosen).sum()),
        "argmax.clamped": sum(ends),
    }
