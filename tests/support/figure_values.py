"""A small comparison with known numbers, and ways to look at what a figure drew."""

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from quantscope.model.residuals import Branch, Residual
from quantscope.run import Classes, Evaluation, score_of_classes
from quantscope.run.compare.results import (
    ChannelComparison,
    Comparison,
    ErrorSources,
    OutputAgreement,
    TensorComparison,
    Uncompared,
)


def channel(number: int, sqnr: float | None, rmse: float, local: float | None) -> ChannelComparison:
    return ChannelComparison(number, sqnr, local, rmse, 0.0, 0.0, -1.0, 1.0, -1.0, 1.0)


def activation(name: str, **facts: Any) -> TensorComparison:
    values: dict[str, Any] = {
        "name": name,
        "float_name": name,
        "layer": name.removesuffix(".out"),
        "role": "activation",
        "bits": 8,
        "sqnr_db": 30.0,
        "local_sqnr_db": 40.0,
        "exact": False,
    }
    return TensorComparison(**{**values, **facts})


INPUT = activation(
    "x", layer=None, sqnr_db=None, local_sqnr_db=None, exact=True, no_sources="it has no error"
)
CONV = activation(
    "conv.out",
    sqnr_db=34.5,
    local_sqnr_db=38.0,
    sources=ErrorSources(0.0, 0.6, 0.3, 0.1, None, {"x": 0.0}),
    rmse_steps=0.5,
    ideal_rmse_steps=0.289,
    channels=tuple(
        channel(n, sqnr, rmse, 40.0)
        for n, (sqnr, rmse) in enumerate([(36.0, 0.05), (20.0, 0.2), (35.0, 0.05), (33.0, 0.1)])
    ),
    worst_channels=(1, 3),
)
ADD = activation(
    "add.out",
    sqnr_db=25.0,
    local_sqnr_db=37.5,
    sources=ErrorSources(1.1, 0.0, 0.1, -0.2, None, {"conv.out": 0.8, "x": 0.3}),
)
HEAD = activation("head.out", sqnr_db=24.0, local_sqnr_db=39.0, no_sources="it is a surprise")
WEIGHT = replace(
    CONV, name="conv.weight", role="weight", sqnr_db=42.0, local_sqnr_db=42.0, sources=None
)


def comparison(**changes: Any) -> Comparison:
    values: dict[str, Any] = {
        "model": "net.onnx",
        "digest": "a" * 64,
        "float_model": "float.onnx",
        "float_digest": "b" * 64,
        "execution": "reference",
        "data": "sample",
        "data_digest": "c" * 64,
        "images": 1000,
        "tensors": (INPUT, WEIGHT, CONV, ADD, HEAD),
        "unpaired": (),
        "unseen": (Uncompared("pool.out", "activation", "cannot be seen"),),
        "output": OutputAgreement(
            1000, 990, np.arange(10), np.arange(3), np.arange(3, 8), 0.001, "softmax", "reference"
        ),
        "not_finite_from": None,
        "provenance": {"onnxruntime": "1.31", "cpu": "some CPU"},
    }
    return Comparison(**{**values, **changes})


CLASSES = ("cat", "dog", "co$w$")


def evaluation(predictions: list[int], *, model: str = "net.onnx") -> Evaluation:
    """Labels are 0, 0, 1, 1, 2, 2."""
    labels = np.array([0, 0, 1, 1, 2, 2])
    scores = np.zeros((6, 3))
    classes = Classes(scores, np.array(predictions), labels, 0.5, CLASSES)
    return Evaluation(
        model=model,
        digest="a" * 64,
        execution="reference",
        data="sample",
        data_digest="c" * 64,
        indices=np.arange(6),
        outputs={"scores": scores},
        scored=score_of_classes(classes),
        classes=classes,
        provenance={},
    )


def drawn(figure: Figure) -> Figure:
    figure.canvas.draw()
    return figure


def texts(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(lambda a: hasattr(a, "get_text")))


def ticks(axes: Axes, which: str = "x") -> list[str]:
    labels = axes.get_xticklabels() if which == "x" else axes.get_yticklabels()
    return [label.get_text() for label in labels]


def bars(axes: Axes) -> list[Rectangle]:
    """In the order in which they were drawn."""
    found = [p for p in axes.patches if isinstance(p, Rectangle)]
    return [p for p in found if p.get_gid()]


def colour(artist: Rectangle) -> str:
    return to_hex(artist.get_facecolor())


def marks(axes: Axes, *, filled: bool) -> dict[str, float]:
    """Heights of single markers by what they carry, filled or hollow."""
    found: dict[str, float] = {}
    for line in axes.lines:
        if line.get_gid() is None or line.get_marker() != "o":
            continue
        same = to_hex(line.get_markerfacecolor()) == to_hex(line.get_markeredgecolor())
        if same == filled:
            found[line.get_gid()] = float(np.asarray(line.get_ydata()).item())
    return found


RESIDUAL = Residual(
    layer="add",
    op_type="Add",
    branches=(
        Branch("conv.out", "conv", step=0.1, bits=8, bits_lost=1.0, effective_bits=7.0),
        Branch("x", None, step=0.4, bits=8, bits_lost=0.0, effective_bits=8.0),
    ),
    ratio=4.0,
    output="add.out",
    output_step=0.2,
)
