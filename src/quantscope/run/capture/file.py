"""Write captured tensors as a file of arrays (.npz), and describe them in plain values."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams
from quantscope.files import whole_file
from quantscope.run.capture.captured import Capture, CapturedTensor

Array = NDArray[Any]

SCHEMA_VERSION = 1
_HALF_BYTES = tuple(
    np.dtype(t) for t in (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2)
)


def save_capture(capture: Capture, path: Path) -> None:
    """Write `<tensor>/integers`, `/values`, `/scale` and `/zero_point` of each tensor, whole.

    What is not quantized has only `/values`. Beside them: `images`, the indices in the data set;
    `outputs/<name>`, the model's own outputs; `about`, what `capture_to_dict` says, as JSON text.
    Integers of less than 8 bits are stored as 8-bit ones, 8-bit floats as their bytes.
    """
    arrays: dict[str, Array] = {
        "images": capture.indices,
        "about": np.array(json.dumps(capture_to_dict(capture), allow_nan=False)),
    }
    for name, tensor in capture.tensors.items():
        arrays |= {f"{name}/{part}": array for part, array in _parts(tensor)}
    arrays |= {f"outputs/{name}": _storable(array) for name, array in capture.outputs.items()}
    with whole_file(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _parts(tensor: CapturedTensor) -> Iterator[tuple[str, Array]]:
    if tensor.integers is not None and tensor.params is not None:
        yield "integers", _storable(tensor.integers)
        yield "scale", _storable(tensor.params.scale)
        yield "zero_point", _storable(np.asarray(tensor.params.zero_point))
    yield "values", _storable(tensor.values)


def _storable(array: Array) -> Array:
    """Turn an array into one of NumPy's own types; the file format has no name for others."""
    # 1 are NumPy's own types; those that ml_dtypes adds are 2.
    if array.dtype.isbuiltin == 1:
        return array
    if array.dtype in _HALF_BYTES:
        signed = array.dtype in (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.int2))
        return array.astype(np.int8 if signed else np.uint8)
    if array.dtype.itemsize == 1:
        return array.view(np.uint8)
    return array.astype(np.float32)


def capture_to_dict(capture: Capture) -> dict[str, Any]:
    """Describe what was captured in plain values for JSON, without the arrays."""
    return {
        "schema_version": SCHEMA_VERSION,
        "model": capture.model,
        "digest": capture.digest,
        "execution": capture.execution,
        "data": capture.data,
        "images": capture.indices.tolist(),
        "tensors": [_tensor_to_dict(tensor) for tensor in capture.tensors.values()],
        "unseen": [{"name": name, "reason": why} for name, why in capture.unseen.items()],
        "outputs": list(capture.outputs),
        "left_out": [{"name": name, "reason": why} for name, why in capture.left_out.items()],
        "provenance": dict(capture.provenance),
    }


def _tensor_to_dict(tensor: CapturedTensor) -> dict[str, Any]:
    params = tensor.params
    low, high = value_range(tensor)
    return {
        "name": tensor.name,
        "layer": tensor.layer,
        "dtype": str(tensor.values.dtype) if params is None else params.dtype,
        "shape": list(tensor.values.shape),
        "scale": None if params is None else _plain(params, "scale"),
        "zero_point": None if params is None else _plain(params, "zero_point"),
        "axis": None if params is None else params.axis,
        "min": low,
        "max": high,
    }


def _plain(params: QuantParams, name: str) -> Any:
    array = np.asarray(getattr(params, name))
    kind = np.float64 if name == "scale" else np.int64
    return array.astype(kind).tolist()


def value_range(tensor: CapturedTensor) -> tuple[float | None, float | None]:
    """Give the smallest and largest value; None where it is not finite, or there is no value."""
    values = tensor.values
    if values.size == 0:
        return None, None
    low, high = float(values.min()), float(values.max())
    return (low if np.isfinite(low) else None), (high if np.isfinite(high) else None)
