"""Compare a float and a quantized network on the same samples, tensor by tensor.

Both run side by side, and only sums of what lies between them are kept: memory does not grow with
the samples, and no activation is carried into Python.
"""

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from quantscope.data import Samples, SamplesSource, check_batch, samples_for
from quantscope.errors import BadModelError
from quantscope.model import (
    Execution,
    ModelSource,
    Network,
    Pairing,
    need_original,
    open_model,
    pair_networks,
    recorded_digest,
)
from quantscope.model.pairing import Constants
from quantscope.progress import Progress, silent
from quantscope.run.batches import cores, run_side_by_side
from quantscope.run.compare.joint_run import Detail, JointRun, ProbeSums
from quantscope.run.compare.rescaled import FROM_RESCALED, RESCALED, rescaled_tensors
from quantscope.run.compare.results import Comparison, Uncompared
from quantscope.run.compare.scores import ScoreKeeper
from quantscope.run.compare.statistics import RunningSums
from quantscope.run.outputs import sample_word
from quantscope.run.runnable import open_runnable

# The largest activation of a batch stays near the cores: measured, not a limit of anything.
_ACTIVATION_BYTES_A_BATCH = 1 << 20
_LARGEST_BATCH = 256

Observer = Callable[[ProbeSums, int], None]
"""Is given the sums of each probe for each batch, and how many of its rows are samples."""


def compare(
    model: ModelSource,
    images: SamplesSource,
    *,
    float_model: ModelSource | None = None,
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
    check_batch(batch)
    opened = open_model(model)
    images = samples_for(opened, images)
    opened.check_int8_kernels(int8_kernels)
    opened.check_comparable()
    quantized = open_runnable(opened, execution=execution, int8_kernels=int8_kernels, threads=1)
    floats = open_runnable(need_original(opened, float_model), execution="reference", threads=1)
    run = quantized.against(floats, detail=detail)
    return compare_run(run, images, threads=threads, batch=batch, progress=progress)


def compare_run(
    run: JointRun,
    images: Samples,
    *,
    threads: int = 0,
    batch: int | None = None,
    observe: Observer | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Run all samples through both networks, and say what the sums between them mean.

    `observe` sees the sums of each batch, in the samples' order, before they are added up.
    """
    quantized, threads = run.quantized, threads or cores()
    size = run.batch_size(batch)
    scores = ScoreKeeper(
        images,
        quantized.execution,
        model=quantized.name,
        probabilities=quantized.gives_probabilities,
    )
    so_far: dict[str, RunningSums] = {}
    done = 0
    with run.start(images, size, threads):
        batches = run.batches(images, size)
        for (_, rows, count), found in run_side_by_side(run.run, batches, threads=threads):
            scores.add(found.float_outputs, found.quantized_outputs, rows, count)
            for sums in found.sums:
                name = sums.probe.pair.name
                if name not in so_far:
                    so_far[name] = RunningSums(sums.probe)
                so_far[name].add(sums.statistics, sums.numbers, rows, count)
                if observe is not None:
                    observe(sums, count)
            done += count
            progress("Comparing", done, len(images))
    unseen = dict(run.unseen())
    seen = [each for name, each in so_far.items() if name not in unseen]
    return run.finish(_comparison(run, images, seen, unseen, scores))


def _comparison(
    run: JointRun,
    images: Samples,
    so_far: list[RunningSums],
    unseen: dict[str, str],
    scores: ScoreKeeper,
) -> Comparison:
    compared, not_compared = run.constants()
    found = {a.probe.pair.name: a.finish() for a in so_far if not a.mixed} | compared
    unseen |= {a.probe.pair.name: a.mixed for a in so_far if a.mixed}
    rescaled = rescaled_tensors(run.quantized.model, run.floats) & found.keys()
    roles = {name: found.pop(name).role for name in rescaled}
    unseen |= {name: RESCALED for name, role in roles.items() if role == "activation"}
    found |= {
        name: replace(row, sources=None, no_sources=FROM_RESCALED)
        for name, row in found.items()
        if row.sources is not None and not rescaled.isdisjoint(row.sources.inherited_by_input)
    }
    constants = sorted((name, role) for name, role in roles.items() if role != "activation")
    not_compared = [*not_compared, *(Uncompared(*each, RESCALED) for each in constants)]
    missing = [Uncompared(u.name, u.role, u.reason) for u in run.pairing.unpaired] + not_compared
    order = {tensor.name: place for place, tensor in enumerate(run.network.tensors)}
    model = run.quantized.model
    return Comparison(
        model=model.name,
        digest=model.digest,
        float_model=run.floats.name,
        float_digest=run.floats.digest,
        execution=run.quantized.execution,
        data=images.name,
        data_digest=images.digest,
        images=len(images),
        tensors=tuple(found[name] for name in sorted(found, key=order.__getitem__)),
        unpaired=tuple(missing),
        unseen=tuple(Uncompared(name, "activation", why) for name, why in unseen.items()),
        output=scores.finish(),
        not_finite_from=next(filter(None, (a.not_finite(images) for a in so_far)), None),
        provenance=run.provenance(),
        made_from=recorded_digest(model) if run.is_told_by_digest() else None,
        no_output=scores.no_classes,
        outputs=scores.outputs(),
        sample_word=sample_word(images),
    )


def pair_comparable(
    float_network: Network, network: Network, constants: tuple[Constants, Constants] | None = None
) -> Pairing:
    """Pair two networks that must have an output in common."""
    pairing = pair_networks(float_network, network, constants=constants)
    if not pairing.outputs:
        raise BadModelError(
            f"{float_network.path.name} and {network.path.name} have no output in common; "
            f"give the float model that {network.path.name} was made from"
        )
    return pairing


def small_batch(network: Network) -> int:
    """Give as many samples as keep the largest activation of a batch small."""
    shapes = [t.shape for t in network.tensors if t.role == "activation" and t.shape]
    sizes = [prod(d for d in shape[1:] if isinstance(d, int)) for shape in shapes]
    fitting = _ACTIVATION_BYTES_A_BATCH // (4 * max(sizes, default=1) or 1)
    return int(np.clip(fitting, 1, _LARGEST_BATCH))
