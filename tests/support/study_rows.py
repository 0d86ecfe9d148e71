"""A small study's result with known numbers, made by the code that makes real rows."""

from dataclasses import replace
from typing import Any

import numpy as np

from quantscope.quantize import PtqConfig
from quantscope.run import Classes, Evaluation, score_of_classes
from quantscope.study import StudyConfig, StudyResult, key_of
from quantscope.study.ptq import _measured

CLASSES = ("cat", "dog", "<b>cow</b>")
IMAGES = 300
LABELS = np.arange(IMAGES) % 3


def evaluation(wrong: int, execution: str) -> Evaluation:
    """The first `wrong` images are taken for the next class."""
    predictions = np.where(np.arange(IMAGES) < wrong, (LABELS + 1) % 3, LABELS)
    scores = np.eye(3)[predictions]
    classes = Classes(scores, predictions, LABELS, 0.5, CLASSES)
    return Evaluation(
        model="m.onnx",
        digest="0" * 64,
        execution=execution,  # type: ignore[arg-type]
        data="images.npz",
        data_digest="1" * 64,
        indices=np.arange(IMAGES),
        outputs={"scores": scores},
        scored=score_of_classes(classes),
        classes=classes,
        provenance={},
    )


def predictions(wrong: int) -> tuple[int, ...]:
    return tuple(evaluation(wrong, "reference").predictions.tolist())


PROVENANCE = {
    "float_model": {"name": "m<1>.onnx", "digest": "0" * 64},
    "data": {"name": "images.npz", "images": IMAGES, "digest": "1" * 64},
    "threads": 1,
    "cpu": "some CPU",
    "platform": "Linux",
    "versions": {"quantscope": "0.1.0"},
}


def row(config: PtqConfig, *, wrong: int, wrong_runtime: int | None, size: int) -> dict[str, Any]:
    """A row against a float model that has 30 images wrong."""
    chosen = StudyConfig(config)
    runtime, gap = None, None
    if wrong_runtime is not None:
        runtime = _measured(evaluation(wrong_runtime, "runtime"), predictions(30))
        gap = {
            "delta": (wrong - wrong_runtime) / IMAGES,
            "interval_95": [-0.1, 0.0],
            "p_value": 0.01,
            "is_real": wrong != wrong_runtime,
            "changed": abs(wrong - wrong_runtime),
            "explanation": "The kernels saturate." if wrong != wrong_runtime else None,
            "kernel_map": {"integer_layers": 6, "computing_layers": 14},
        }
    return {
        "key": key_of(config=chosen.to_dict()),
        "label": chosen.label(),
        "config": chosen.to_dict(),
        "status": "done",
        "reason": None,
        "seconds": 1.25,
        "reference": _measured(evaluation(wrong, "reference"), predictions(30)),
        "runtime": runtime,
        "kernel_gap": gap,
        "size_bytes": size,
        "model_digest": "2" * 64,
        "warnings": [],
        "provenance": PROVENANCE,
    }


def failed(config: PtqConfig, reason: str) -> dict[str, Any]:
    chosen = StudyConfig(config)
    return {
        "key": key_of(failed=chosen.to_dict()),
        "label": chosen.label(),
        "config": chosen.to_dict(),
        "status": "failed",
        "reason": reason,
        "seconds": None,
    }


def baseline(framework: str) -> dict[str, Any]:
    both = {
        "reference": _measured(evaluation(30, "reference"), None),
        "runtime": _measured(evaluation(30, "runtime"), None)
        if framework == "onnxruntime"
        else None,
    }
    return {
        "key": key_of(baseline=framework),
        "label": f"float {framework}",
        "config": {"baseline": framework},
        "status": "done",
        "reason": None,
        "seconds": 1.0,
        **both,
        "size_bytes": 400_000,
        "model_digest": "0" * 64,
        "provenance": PROVENANCE,
    }


def study_result() -> StudyResult:
    """Four measured configurations and a failed one; 90 % float accuracy."""
    base = PtqConfig(calibration_images=100)
    rows = [
        row(base, wrong=33, wrong_runtime=33, size=100_000),
        row(replace(base, calibration_images=256), wrong=27, wrong_runtime=27, size=100_000),
        row(replace(base, activations="uint8"), wrong=33, wrong_runtime=60, size=101_000),
        row(PtqConfig(framework="torch"), wrong=36, wrong_runtime=None, size=200_000),
        failed(PtqConfig(reduce_range=True), "It broke & <burned>"),
    ]
    return StudyResult.from_rows(
        rows,
        baselines={name: baseline(name) for name in ("onnxruntime", "torch")},
        name="study.toml",
        skipped=("activations = int8, weights = uint8: not possible",),
    )
