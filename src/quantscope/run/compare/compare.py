"""A float and a quantized network on the same images, tensor by tensor.

Both run in one graph that also reduces the statistics, so memory does not grow with the images and
no activation is carried into Python.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import ImageSet
from quantscope.edit import lift_to_qdq
from quantscope.errors import BadConfigError, BadDataError, BadModelError
from quantscope.model import Network, load_onnx, read_onnx
from quantscope.model.onnx.file import OnnxFile
from quantscope.model.onnx.graph import open_graph
from quantscope.model.pairing.constants import Constants
from quantscope.model.pairing.pair import Pairing, pair
from quantscope.progress import Progress, silent
from quantscope.run.batches import input_batches
from quantscope.run.classifier import TORCH_SUFFIXES, Classifier, refuse_int8_kernels
from quantscope.run.compare.results import Comparison, TensorComparison, Uncompared
from quantscope.run.compare.scores import ScoreKeeper
from quantscope.run.compare.statistics import Accumulator
from quantscope.run.compare.weights import compare_constants
from quantscope.run.counterpart import known_float_model
from quantscope.run.in_order import cores, in_order
from quantscope.run.onnx.classifier import open_onnx
from quantscope.run.onnx.compare.graph import ComparisonGraph, Detail, build_graph
from quantscope.run.onnx.compare.runtime import RuntimeReader
from quantscope.run.onnx.compare.session import FEWEST_IMAGES, TRIAL_IMAGES, ComparisonSession
from quantscope.run.onnx.sessions import Execution
from quantscope.zoo import find_model, recorded_float_digest, unknown_float_model

Array = NDArray[Any]

# The largest activation of a batch stays near the cores: measured, not a limit of anything.
_ACTIVATION_BYTES_A_BATCH = 1 << 20
_LARGEST_BATCH = 256


def compare(
    model: str | Path,
    images: ImageSet,
    *,
    float_model: str | Path | None = None,
    execution: Execution = "reference",
    detail: Detail = "full",
    int8_kernels: bool | None = None,
    threads: int = 0,
    batch: int | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Compare a quantized model with the float one it was made from.

    `float_model` None works for bundled models and for those that say what they were made from.
    The float network runs as its file states it, up to the last bits of its sums
    (`run/onnx/compare/session.py`); `execution` is the quantized one's. In runtime execution only
    those inner tensors are shown that can be looked at without changing what runs, and the model's
    outputs come from a session that is not looked into. `detail` "sqnr" gives each activation's
    SQNR and no more, in a fraction of the time. `threads` 0 means all cores; each takes batches of
    its own. A PyTorch program (.pt2) has only its reference execution; its float model is a program
    too, or ResNet8's weights (.safetensors).
    """
    if len(images) == 0:
        raise BadDataError(f"{images.name} holds no images; give at least one")
    if batch is not None and batch < 1:
        raise BadConfigError(f"A batch holds at least one image, not {batch}")
    path = find_model(model)
    if path.suffix in TORCH_SUFFIXES:
        refuse_int8_kernels(path, int8_kernels)
        from quantscope.run.torch.compare import compare_programs

        return compare_programs(
            path,
            images,
            float_model=float_model,
            execution=execution,
            detail=detail,
            threads=threads,
            batch=batch,
            progress=progress,
        )
    file = _onnx_file(path)
    opened = open_graph(file)
    network = read_onnx(opened)
    if not network.is_quantized:
        raise BadModelError(
            f"{file.path.name} is a float model: there is nothing to compare it with; "
            f"give a quantized one"
        )
    float_file = _float_file(network, float_model)
    float_graph = open_graph(float_file)
    float_network = read_onnx(float_graph)
    constants = Constants(float_network, float_graph), Constants(network, opened)
    pairing = paired(float_network, network, constants)
    classifier = open_onnx(file, execution=execution, int8_kernels=int8_kernels, threads=1)
    reader = None
    proto = file.load_proto()
    if execution == "runtime":
        wanted = [p.name for p in pairing.pairs if p.role == "activation"]
        reader = RuntimeReader(proto, network, wanted, int8_kernels=int8_kernels)
    if file.format in ("qoperator", "mixed"):
        proto = lift_to_qdq(proto)
    graph = build_graph(
        float_file.load_proto(),
        proto,
        network,
        pairing,
        detail=detail,
        fed=None if reader is None else reader.seen,
    )
    accumulators = [Accumulator(probe) for probe in graph.probes]
    scores = ScoreKeeper(
        images, execution, model=file.path.name, probabilities=classifier.gives_probabilities
    )

    given = _Given(graph, classifier, reader)
    size = batch or small_batch(network)
    session = ComparisonSession(
        graph, model=file.path.name, trial=list(given.trial(images, min(size, TRIAL_IMAGES)))
    )

    def run(rows: Array, _: int) -> tuple[dict[str, Array], Array]:
        """What the graph gives, and the quantized model's scores."""
        fed, shipped = given(rows)
        values = session.run(fed)
        return values, values[graph.quantized_scores] if shipped is None else shipped

    batches = input_batches(classifier, images, size)
    done = 0
    for rows, count, (values, mine) in in_order(run, batches, threads=threads or cores()):
        scores.add(values[graph.float_scores], mine, rows, count)
        for accumulator in accumulators:
            accumulator.take(values, rows, count)
        done += count
        progress("Comparing", done, len(images))
    disturbed = reader.disturbed if reader is not None else None
    if disturbed is not None:
        accumulators = []
    return comparison_of(
        network,
        float_network,
        pairing,
        images,
        accumulators=accumulators,
        constants=(compare_constants(pairing, constants) if detail == "full" else ({}, [])),
        unseen={
            **graph.unseen,
            **(reader.unseen if reader else {}),
            **({probe.pair.name: disturbed for probe in graph.probes} if disturbed else {}),
        },
        output=scores.finish(),
        no_output=scores.no_classes,
        execution=execution,
        provenance={
            **classifier.provenance,
            "float kernels": "optimized" if session.is_faster else "plain",
        },
    )


@dataclass(frozen=True)
class _Given:
    """What the graph is fed for a batch, and the scores of the kernels that ship, if they are."""

    graph: ComparisonGraph
    classifier: Classifier
    reader: RuntimeReader | None

    def __call__(self, rows: Array) -> tuple[dict[str, Array], Array | None]:
        if self.reader is None:
            return {self.graph.input: rows}, None
        shipped = self.classifier.run(rows)
        integers = self.reader.read(rows, shipped)
        fed = {self.graph.fed[name]: values for name, values in integers.items()}
        return {self.graph.input: rows, **fed}, shipped

    def trial(self, images: ImageSet, batch: int) -> Iterator[dict[str, Array]]:
        """For a few images from first to last; nothing where there are too few to gain by it."""
        if len(images) < FEWEST_IMAGES:
            return
        spread = np.linspace(0, len(images) - 1, TRIAL_IMAGES).round().astype(np.int64)
        for rows, _ in input_batches(self.classifier, images.select(spread), batch):
            yield self(rows)[0]


def paired(
    float_network: Network, network: Network, constants: tuple[Constants, Constants] | None = None
) -> Pairing:
    pairing = pair(float_network, network, constants=constants)
    if not pairing.outputs:
        raise BadModelError(
            f"{float_network.path.name} and {network.path.name} have no output in common; "
            f"give the float model that {network.path.name} was made from"
        )
    return pairing


def _onnx_file(path: Path) -> OnnxFile:
    if path.suffix in TORCH_SUFFIXES:
        raise BadModelError(
            f"{path.name} is a PyTorch model; compare reads ONNX files: give its ONNX form"
        )
    return load_onnx(path)


def _float_file(network: Network, given: str | Path | None) -> OnnxFile:
    path = known_float_model(network, given)
    if path is None:
        raise unknown_float_model(network)
    return _onnx_file(path)


def small_batch(network: Network) -> int:
    """As many images as keep the largest activation of a batch small."""
    shapes = [t.shape for t in network.tensors if t.role == "activation" and t.shape]
    sizes = [prod(d for d in shape[1:] if isinstance(d, int)) for shape in shapes]
    fitting = _ACTIVATION_BYTES_A_BATCH // (4 * max(sizes, default=1) or 1)
    return int(np.clip(fitting, 1, _LARGEST_BATCH))


def comparison_of(
    network: Network,
    float_network: Network,
    pairing: Pairing,
    images: ImageSet,
    *,
    accumulators: list[Accumulator],
    constants: tuple[dict[str, TensorComparison], list[Uncompared]],
    unseen: dict[str, str],
    **facts: Any,
) -> Comparison:
    """`constants` are weights and biases by name, and those that could not be compared."""
    found = {a.probe.pair.name: a.finish() for a in accumulators if not a.mixed} | constants[0]
    unseen = unseen | {a.probe.pair.name: a.mixed for a in accumulators if a.mixed}
    missing = [Uncompared(u.name, u.role, u.reason) for u in pairing.unpaired] + constants[1]
    order = {tensor.name: place for place, tensor in enumerate(network.tensors)}
    # A float program may be what the recorded weights were exported as.
    is_told_by_digest = network.opset is not None or float_network.path.suffix == ".safetensors"
    return Comparison(
        model=network.path.name,
        digest=network.digest,
        float_model=float_network.path.name,
        float_digest=float_network.digest,
        data=images.name,
        data_digest=images.digest,
        images=len(images),
        tensors=tuple(found[name] for name in sorted(found, key=order.__getitem__)),
        unpaired=tuple(missing),
        unseen=tuple(Uncompared(name, "activation", why) for name, why in unseen.items()),
        not_finite_from=next(filter(None, (a.not_finite(images) for a in accumulators)), None),
        made_from=recorded_float_digest(network) if is_told_by_digest else None,
        **facts,
    )
