"""A small sensitivity study with known numbers."""

from typing import Any

from quantscope.study.sensitivity.results import Base, NotSwitched, Sensitivity, SensitivityRow


def row(layer: str, rank: int, delta: float, **changes: Any) -> SensitivityRow:
    values: dict[str, Any] = {
        "layer": layer,
        "rank": rank,
        "delta": delta,
        "mode": "disable",
        "op_type": "Conv",
        "tensors": (),
        "accuracy": 0.9,
        "interval_95": (-0.01, 0.03),
        "p_value": 0.5,
        "gained": 5,
        "lost": 2,
        "changed": 9,
        "gained_images": (),
        "lost_images": (),
        "logit_sqnr_db": 31.5,
        "sqnr_change_db": 1.0,
        "exact": False,
        "unchanged": False,
    }
    return SensitivityRow(**{**values, **changes})


def result(*rows: SensitivityRow) -> Sensitivity:
    return Sensitivity(
        model="net.onnx",
        digest="a" * 64,
        float_model="float.onnx",
        float_digest="b" * 64,
        mode="both",
        execution="reference",
        data="sample",
        data_digest="c" * 64,
        images=1000,
        scores="logits",
        float_accuracy=0.9,
        quantized=Base(0.89, 30.25, False),
        all_off=None,
        rows=rows,
        not_switched=(NotSwitched("flatten", "it has no quantizer"),),
        notes=(),
        provenance={},
    )


DISABLE = (
    row("late", 2, 0.0),
    row("early", 1, 0.01),
    row("$odd$", 3, -0.002, logit_sqnr_db=None, exact=True),
)
ENABLE = (
    row("early", 2, -0.004, mode="enable"),
    row("late", 1, -0.02, mode="enable", logit_sqnr_db=None),
)
