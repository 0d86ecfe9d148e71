"""Measure a network with every pair of widths for its weights and activations."""

import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from quantscope.arithmetic import BIT_WIDTHS
from quantscope.data import Samples, SamplesSource, check_samples
from quantscope.edit import Editor, RangeRule
from quantscope.errors import BadConfigError, BadModelError, QuantscopeError
from quantscope.model import Execution, ModelSource, need_original, open_model
from quantscope.model.onnx import OnnxModel
from quantscope.progress import Progress, silent
from quantscope.run import MeasureSource
from quantscope.study.bits.cells import CellSetting, cell_row
from quantscope.study.bits.estimate import Agree, estimate
from quantscope.study.bits.ranges import choose_ranges
from quantscope.study.bits.results import BitCell, BitMap, Width, label_of
from quantscope.study.engine import Job, key_of, run_jobs
from quantscope.study.folder import Row, Subject, open_folder
from quantscope.study.ptq import versions

BITS = (2, 3, 4, 5, 6, 7, 8)
"""The widths of a map that says nothing else; float is always there."""


def bit_map(
    model: ModelSource,
    samples: Samples,
    *,
    float_model: ModelSource | None = None,
    weights: Sequence[int] = BITS,
    activations: Sequence[int] = BITS,
    ranges: RangeRule = "keep",
    calibration: SamplesSource | None = None,
    execution: Execution = "reference",
    measure: MeasureSource | None = None,
    out: Path | None = None,
    executor: Executor | None = None,
    threads: int = 0,
    retry_failed: bool = False,
    agree: Agree | None = None,
    progress: Progress = silent,
) -> BitMap:
    """Measure a quantized ONNX model with every pair of widths, each against the float network.

    The ranges are the model's own, whatever the bits, or chosen anew for each width: weights by
    their values, activations by those on `calibration`, see `choose_ranges`. `out` keeps each cell
    as soon as it is there, and the same call goes on where another was stopped; without it nothing
    is kept. The cells run one after the other with all cores, or side by side on an `executor` of
    `concurrent.futures`. `agree` is told what the cells that are left will take, before they run;
    it may raise to stop.
    """
    check_samples(samples)
    widths = (check_widths("weights", weights), check_widths("activations", activations))
    base = open_model(model).as_onnx("the map of bits")
    if base.is_float:
        raise BadModelError(
            f"{base.name} is a float model; give one of 8 bits: {base.quantize_command}"
        )
    original = need_original(base, float_model).as_onnx("the map of bits")
    chosen = choose_ranges(
        Editor(base, original),
        ranges,
        widths[1],
        calibration,
        threads=threads,
        progress=progress,
    )
    shared = {
        "model": base.digest,
        "float": original.digest,
        "data": samples.digest,
        "execution": execution,
        "measure": measure if isinstance(measure, str) or measure is None else measure.name,
    }
    if chosen.rule != "keep":
        shared |= {"ranges": chosen.rule, "range_data": chosen.data_digest}
    setting = CellSetting(
        key=key_of(**shared),
        base=_content(base),
        floats=_content(original),
        name=base.name,
        float_name=f"float-{original.name}",
        samples=samples,
        ranges=chosen,
        measure=measure,
        execution=execution,
        threads=threads,
    )
    jobs = [_job(shared, *pair) for pair in itertools.product(*widths)]
    subjects = {
        "model": Subject(base.name, base.digest),
        "set of samples": Subject(samples.name, samples.digest),
    }
    with (
        _folder(out) as place,
        open_folder(place, subjects, check=_check_row) as folder,
        ThreadPoolExecutor(1) as own,
    ):
        if agree is not None:
            left = len({job.key for job in jobs} - folder.rows().keys())
            agree(estimate(base, samples, left, execution=execution, threads=threads))
        rows = run_jobs(
            jobs,
            partial(cell_row, setting),
            folder,
            executor=executor or own,
            retry_failed=retry_failed,
            what="Measuring bits",
            progress=progress,
        )
        damaged = tuple(folder.damaged)
    found = [rows[job.key] for job in jobs]
    done = [row for row in found if row["status"] == "done"]
    if not done:
        raise QuantscopeError(f"No cell of the map could be measured: {found[0]['reason']}")
    facts, score = done[0]["facts"], done[0]["score"]
    return BitMap(
        model=base.name,
        digest=base.digest,
        float_model=original.name,
        float_digest=original.digest,
        execution=execution,
        data=facts["data"],
        data_digest=facts["data_digest"],
        samples=facts["samples"],
        sample_word=facts["sample_word"],
        measure=score["measure"],
        unit=score["unit"],
        higher_is_better=score["higher_is_better"],
        interval_of=score["interval_of"],
        provenance=facts["provenance"],
        ranges=chosen.rule,
        range_data=chosen.data,
        weights=widths[0],
        activations=widths[1],
        cells=tuple(_cell(row) for row in found),
        damaged=damaged,
    )


def _content(model: OnnxModel) -> bytes:
    """Give a file's bytes, with the weights in it that it has beside it."""
    if len(model.files) == 1:
        return model.path.read_bytes()
    return bytes(model.proto.SerializeToString(deterministic=True))


def check_widths(what: str, given: Sequence[int]) -> tuple[Width, ...]:
    """Give the widths in rising order, each once, and float after them."""
    for bits in given:
        if bits not in BIT_WIDTHS:
            raise BadConfigError(f"{bits} bits for {what} are none of the widths 2 to 8 and 16")
    return (*sorted(set(given)), None)


def _job(shared: Mapping[str, Any], weights: Width, activations: Width) -> Job:
    config = {"weights": weights, "activations": activations}
    key = key_of(config=config, versions=versions(), **shared)
    return Job(key, label_of(weights, activations), config)


def _cell(row: Row) -> BitCell:
    weights, activations = row["config"]["weights"], row["config"]["activations"]
    if row["status"] == "failed":
        return BitCell(weights, activations, None, None, None, None, 0, row["reason"])
    delta = row["against_float"] or {}
    return BitCell(
        weights=weights,
        activations=activations,
        score=row["score"]["value"],
        interval_95=_pair(row["score"]["interval_95"]),
        delta=delta.get("delta"),
        delta_interval_95=_pair(delta.get("interval_95")),
        weight_bytes=row["weight_bytes"],
    )


def _pair(ends: Sequence[float] | None) -> tuple[float, float] | None:
    return None if ends is None else (ends[0], ends[1])


def _check_row(row: Row) -> None:
    """Raise `ValueError` for a row that lacks what a cell is made of."""
    try:
        _cell(row)
        if row["status"] == "done":
            row["facts"]["provenance"], row["score"]["measure"]
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"it lacks what a map of bits writes ({error})") from None


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="quantscope-") as folder:
        yield Path(folder) / "bits"
