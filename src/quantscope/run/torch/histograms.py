"""Histograms of a PyTorch program beside its float one. Needs the `torch` extra."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from quantscope.data import ImageSet
from quantscope.errors import BadConfigError
from quantscope.model.pairing import TensorPair
from quantscope.progress import Progress
from quantscope.run.histograms.question import Array, Question, Tallies, of_images
from quantscope.run.histograms.results import Histograms
from quantscope.run.histograms.series import Plan, plan
from quantscope.run.in_order import cores
from quantscope.run.onnx.sessions import Execution
from quantscope.run.torch.classifier import refuse_runtime
from quantscope.run.torch.compare import float_program_of
from quantscope.run.torch.programs import Program, as_array, opened_program, run_nodes
from quantscope.run.torch.threads import one_thread_each
from quantscope.run.torch.weights import float_values
from quantscope.run.torch.writes import why_unseen


def program_histograms(
    path: Path,
    images: ImageSet,
    tensors: Sequence[str] | None,
    *,
    float_model: str | Path | None,
    execution: Execution,
    bins: int,
    threads: int,
    batch: int | None,
    progress: Progress,
) -> Histograms:
    """As `histograms`."""
    with ExitStack() as stack:
        quantized = stack.enter_context(opened_program(path))
        refuse_runtime(path, execution)
        original = _original(quantized, float_model)
        floats = None if original is None else stack.enter_context(opened_program(original))
        network = None if floats is None else floats.network
        question = Question.of(quantized.network, network, tensors)
        if floats is not None:
            question = _with_floats(question, floats)
        counter = _Counter(question.plans, quantized, floats)
        stack.enter_context(one_thread_each(threads or cores()))
        return question.answer(
            counter,
            quantized.batches(images, batch or question.batch),
            images,
            quantized.classifier,
            bins=bins,
            threads=threads,
            progress=progress,
        )


def _original(quantized: Program, given: str | Path | None) -> Path | None:
    try:
        return float_program_of(quantized.network, given)
    except BadConfigError:
        return None


def _with_floats(question: Question, floats: Program) -> Question:
    """A program's float weights are in the program itself; some values no name stands for."""

    def known(pair: TensorPair | None, why: str | None) -> tuple[TensorPair | None, str | None]:
        if pair is None:
            return None, why
        if pair.float_name in floats.writes.changing:
            return None, why_unseen(floats.name)
        return replace(pair, read_float=partial(float_values, floats, pair)), why

    found = {name: known(*counterpart) for name, counterpart in question.counterparts.items()}
    plans = tuple(plan(each.tensor, *found[each.tensor.name]) for each in question.plans)
    return replace(question, counterparts=found, plans=plans)


@dataclass(frozen=True, eq=False)
class _Counter:
    plans: Sequence[Plan]
    quantized: Program
    floats: Program | None

    @property
    def unseen(self) -> Mapping[str, str]:
        return {}

    def count(self, rows: Array, count: int) -> dict[str, Tallies]:
        integers = _values(self.quantized, [p.tensor.integer_names[0] for p in self.plans], rows)
        names = [p.pair.float_name for p in self.plans if p.pair is not None]
        floats = {} if self.floats is None else _values(self.floats, names, rows)
        found = {}
        for each in self.plans:
            tensor = each.tensor
            given = None
            if each.pair is not None:
                given = of_images(as_array(floats[each.pair.float_name]), rows, count)
            codes = as_array(integers[tensor.integer_names[0]], tensor.params.dtype)
            found[tensor.name] = each.count(given, of_images(codes, rows, count))
        return found


def _values(program: Program, names: Sequence[str], rows: Array) -> Mapping[str, Any]:
    """As they were made, whatever is written into them later."""
    start = program.start(rows)
    found = {name: start[name].clone() for name in start.keys() & set(names)}

    def keep(name: str, value: Any) -> None:
        if name in names:
            found[name] = value.clone() if name in program.writes.touched else value

    outputs = [operand.name for operand in program.network.outputs]
    run_nodes(program.nodes, start, model=program.name, keep=outputs, watch=keep)
    return found
