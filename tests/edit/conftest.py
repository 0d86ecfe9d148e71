"""The bundled models with an editor, images for them, and what a model makes of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from quantscope.data import load_sample
from quantscope.edit import Editor
from quantscope.run.onnx.sessions import session_of

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="session")
def pixels() -> Array:
    """Images of the bundled sample as ResNet8 takes them."""
    return load_sample().images[:16].astype(np.float32)


@pytest.fixture(scope="session")
def scores() -> Callable[..., Array]:
    """`scores(proto, x, execution=...)`: the first output."""

    def run(proto: onnx.ModelProto, x: Array, execution: str = "reference") -> Array:
        session = session_of(proto, execution)  # type: ignore[arg-type]
        return np.asarray(session.run(None, {session.get_inputs()[0].name: x})[0])

    return run


@pytest.fixture(scope="session")
def int8() -> Editor:
    return Editor("resnet8-int8")


@pytest.fixture(scope="session")
def uint8() -> Editor:
    return Editor("resnet8-uint8")
