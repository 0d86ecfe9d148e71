"""A playground for post-training quantization: see every factor, change any, watch what happens.

    from quantscope import PtqConfig, evaluate, load, quantize_model

Names are loaded when they are used: `import quantscope` brings in no framework.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# onnxruntime tells its makers of each session, unless told otherwise before it is imported. Nothing
# of a person's models is told to anybody here.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if TYPE_CHECKING:
    from quantscope.data import ImageSet, Samples, calibration_set, load
    from quantscope.edit import Recipe, apply
    from quantscope.errors import QuantscopeError
    from quantscope.model import Model, Network, bundled_models, open_model, read_network
    from quantscope.quantize import PtqConfig, quantize_model
    from quantscope.run.capture.capture import capture
    from quantscope.run.compare.compare import compare
    from quantscope.run.compare.results import Comparison
    from quantscope.run.evaluate import Evaluation, compare_evaluations, evaluate
    from quantscope.run.gap import kernel_gap, kernel_map
    from quantscope.run.integers.trace import trace_value
    from quantscope.run.whatif.whatif import WhatIf
    from quantscope.study.interactions.pairs import interactions
    from quantscope.study.interactions.results import Interactions, Shapley
    from quantscope.study.interactions.shapley import shapley
    from quantscope.study.sensitivity.results import Sensitivity
    from quantscope.study.sensitivity.sensitivity import sensitivity

_ROOM_OF = {
    "Comparison": "run",
    "Evaluation": "run",
    "ImageSet": "data",
    "Interactions": "study.interactions",
    "Model": "model",
    "Network": "model",
    "PtqConfig": "quantize",
    "QuantscopeError": "errors",
    "Recipe": "edit",
    "Samples": "data",
    "Sensitivity": "study.sensitivity.results",
    "Shapley": "study.interactions",
    "WhatIf": "run",
    "apply": "edit",
    "bundled_models": "model",
    "calibration_set": "data",
    "capture": "run",
    "compare": "run",
    "compare_evaluations": "run",
    "evaluate": "run",
    "interactions": "study.interactions",
    "kernel_gap": "run",
    "kernel_map": "run",
    "load": "data",
    "open_model": "model",
    "paired": "run",
    "quantize_model": "quantize",
    "read_network": "model",
    "sensitivity": "study.sensitivity.sensitivity",
    "shapley": "study.interactions",
    "trace_value": "run",
}

__all__ = [
    "Comparison",
    "Evaluation",
    "ImageSet",
    "Interactions",
    "Model",
    "Network",
    "PtqConfig",
    "QuantscopeError",
    "Recipe",
    "Samples",
    "Sensitivity",
    "Shapley",
    "WhatIf",
    "apply",
    "bundled_models",
    "calibration_set",
    "capture",
    "compare",
    "compare_evaluations",
    "evaluate",
    "interactions",
    "kernel_gap",
    "kernel_map",
    "load",
    "open_model",
    "paired",
    "quantize_model",
    "read_network",
    "sensitivity",
    "shapley",
    "trace_value",
]


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'quantscope' has no attribute {name!r}")
    return getattr(import_module(f"quantscope.{_ROOM_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
