"""Compute for page 02 what 16-bit pair sums would do to resnet8-uint8 on AVX2."""

import numpy as np

from doc_numbers.executed import EXAMPLE, Executed, Step
from doc_numbers.formatting import Fields, percent, rows
from quantscope.arithmetic.window import filters, patches, resolve_window
from quantscope.run.integers.compute import compute


def fields(run: Executed) -> Fields:
    steps = [step for step in run.saturated.values() if step.saturation is not None]
    convolutions = [step for step in steps if step.spec.kind == "Conv"]
    worst = max(convolutions, key=_pairs_hit)
    predicted = run.saturated["head"].output.argmax(axis=1)
    return {
        "saturation.rows": rows(_row(step) for step in steps),
        "saturation.layer": worst.name,
        "saturation.changed_classes": int((run.unsaturated_classes != predicted).sum()),
        **_worst_pair(worst),
    }


def _pairs_hit(step: Step) -> int:
    assert step.saturation is not None
    return int(step.saturation.saturated_pairs.sum(dtype=np.int64))


def _row(step: Step) -> tuple[str | int, ...]:
    """Give a layer's pairs, how many can saturate, how many do, and what that changes."""
    assert step.saturation is not None
    data = np.asarray(step.spec.sides[1].data).astype(np.int64)
    kernels = data.transpose(0, 2, 3, 1).reshape(len(data), -1) if data.ndim == 4 else data.T
    even = kernels[:, : kernels.shape[1] // 2 * 2].reshape(len(kernels), -1, 2)
    high = 255 * np.maximum(even, 0).sum(axis=2)
    low = 255 * np.minimum(even, 0).sum(axis=2)
    able = int(((high > 32767) | (low < -32768)).sum())
    without = compute(step.spec, step.operands, step.y, "kernel").astype(np.int64)
    change = np.abs(step.output.astype(np.int64) - without)
    changed = int(np.count_nonzero(change))
    return (
        step.name,
        high.size,
        able,
        f"{int(low.min())} .. {int(high.max())}",
        _pairs_hit(step),
        percent(changed, change.size),
        int(change.max()),
    )


def _worst_pair(step: Step) -> Fields:
    """Find the pair sum of the example image that loses most, in a convolution with many."""
    x = step.operands[0][EXAMPLE : EXAMPLE + 1]
    w = np.asarray(step.spec.sides[1].data)
    window = resolve_window(x.shape[2:], w.shape[2:], step.spec.attributes)
    seen = patches(x, window, pad_value=step.spec.sides[0].zero_point)
    seen = seen.reshape(len(seen), -1).astype(np.int64)
    kernels = filters(w, 1)[0].astype(np.int64)
    pairs = seen.shape[1] // 2
    left = kernels[:, None, 0 : 2 * pairs : 2] * seen[None, :, 0 : 2 * pairs : 2]
    right = kernels[:, None, 1 : 2 * pairs : 2] * seen[None, :, 1 : 2 * pairs : 2]
    sums = left + right
    lost = np.abs(sums - np.clip(sums, -32768, 32767))
    channel, position, pair = (int(i) for i in np.unravel_index(lost.argmax(), lost.shape))
    total = int(sums[channel, position, pair])
    clipped = min(max(total, -32768), 32767)
    exact = step.spec.sides[0].params.scale * step.spec.sides[1].params.scale.reshape(-1)[channel]
    return {
        "pair.channel": channel,
        "pair.row": position // window.output[1],
        "pair.column": position % window.output[1],
        "pair.first": 2 * pair,
        "pair.second": 2 * pair + 1,
        "pair.x0": int(seen[position, 2 * pair]),
        "pair.x1": int(seen[position, 2 * pair + 1]),
        "pair.w0": int(kernels[channel, 2 * pair]),
        "pair.w1": int(kernels[channel, 2 * pair + 1]),
        "pair.sum": total,
        "pair.clipped": clipped,
        "pair.lost": total - clipped,
        "pair.steps": abs(total - clipped) * float(exact) / float(step.y.params.scale),
    }
