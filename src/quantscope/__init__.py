"""A playground for post-training quantization: see every factor, change any, watch what happens.

    from quantscope import PtqConfig, evaluate, load, quantize_model

Names are loaded when they are used: `import quantscope` brings in no framework.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from quantscope.data import ImageSet, calibration_set, load
    from quantscope.errors import QuantscopeError
    from quantscope.model import Network, read_network
    from quantscope.quantize import PtqConfig, quantize_model
    from quantscope.run import Evaluation, evaluate, kernel_gap, kernel_map, paired
    from quantscope.zoo import bundled_models

_ROOM_OF = {
    "Evaluation": "run",
    "ImageSet": "data",
    "Network": "model",
    "PtqConfig": "quantize",
    "QuantscopeError": "errors",
    "bundled_models": "zoo",
    "calibration_set": "data",
    "evaluate": "run",
    "kernel_gap": "run",
    "kernel_map": "run",
    "load": "data",
    "paired": "run",
    "quantize_model": "quantize",
    "read_network": "model",
}

__all__ = [
    "Evaluation",
    "ImageSet",
    "Network",
    "PtqConfig",
    "QuantscopeError",
    "bundled_models",
    "calibration_set",
    "evaluate",
    "kernel_gap",
    "kernel_map",
    "load",
    "paired",
    "quantize_model",
    "read_network",
]


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'quantscope' has no attribute {name!r}")
    return getattr(import_module(f"quantscope.{_ROOM_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
