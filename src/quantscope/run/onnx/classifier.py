"""ONNX models as classifiers, in either execution."""

from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray

from quantscope.errors import BadModelError
from quantscope.model.network import Port
from quantscope.model.onnx import OnnxFile, classifier_input, ends_in_softmax, load_onnx
from quantscope.run.classifier import Classifier
from quantscope.run.cpu import cpu_name
from quantscope.run.onnx.sessions import INT8_OPTION, Execution, open_session, reason_of


def open_onnx(
    source: Path | OnnxFile,
    *,
    execution: Execution = "runtime",
    int8_kernels: bool | None = None,
    threads: int = 0,
) -> Classifier:
    """Open an ONNX classifier; its first output is taken as the scores."""
    file = source if isinstance(source, OnnxFile) else load_onnx(source)
    path = file.path
    images = classifier_input(file)
    session = open_session(file, execution, int8_kernels=int8_kernels, threads=threads)
    output = session.get_outputs()[0].name
    batch, *shape = images.shape or ("N",)
    option = {None: "platform default", True: "1", False: "0"}[int8_kernels]

    def run(batch_of_images: NDArray[np.generic]) -> NDArray[np.floating]:
        try:
            scores: NDArray[np.floating] = session.run([output], {images.name: batch_of_images})[0]
        except Exception as error:
            raise BadModelError(f"{path.name} failed while running: {reason_of(error)}") from None
        return scores

    return Classifier(
        name=path.name,
        digest=file.digest,
        execution=execution,
        input_shape=tuple(d if isinstance(d, int) else None for d in shape),
        input_dtype=_numpy_type(images, path.name),
        gives_probabilities=ends_in_softmax(file),
        run=run,
        fixed_batch=batch if isinstance(batch, int) else None,
        provenance={
            "onnxruntime": ort.__version__,
            "onnx": onnx.__version__,
            "quantscope": version("quantscope"),
            "cpu": cpu_name(),
            INT8_OPTION: option,
        },
    )


def _numpy_type(images: Port, model: str) -> np.dtype[np.generic]:
    try:
        return np.dtype(images.dtype)
    except TypeError:
        raise BadModelError(
            f"The input {images.name!r} of {model} is {images.dtype}, which images cannot "
            f"be given in; the usual ones are float32 and uint8"
        ) from None
