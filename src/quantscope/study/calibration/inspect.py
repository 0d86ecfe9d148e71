"""Look into a calibration set: who sets each range, and what other samples do to it."""

from quantscope.data import Samples, SamplesSource, samples_for, shared_rows
from quantscope.errors import BadDataError, BadModelError
from quantscope.model import ModelSource, open_model
from quantscope.model.onnx import OnnxModel
from quantscope.plain_text import many
from quantscope.progress import Progress, silent
from quantscope.run import MOVING_OPS, End, open_runnable, sample_word
from quantscope.study.calibration.extremes import read_extremes
from quantscope.study.calibration.keepers import OverflowKeeper, RangeKeeper
from quantscope.study.calibration.results import CalibrationInspection, RangeEnd, TensorRange

_CLIPS = frozenset({"Relu", "Clip"})
_WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm"})
_FOLDED_NOTE = (
    "Values that only a Relu, a Clip or, behind a layer with weights, a BatchNormalization reads "
    "are not listed: quantizers fold it and take the range behind it"
)


def inspect_calibration(
    model: ModelSource,
    calibration: SamplesSource,
    samples: SamplesSource | None = None,
    *,
    allow_same: bool = False,
    threads: int = 0,
    progress: Progress = silent,
) -> CalibrationInspection:
    """Find every tensor's range over calibration samples, as minmax calibration takes it.

    Of each end: which sample set it, and where it would be without that one; of each range: how it
    grew with the number of samples, in their order, and how many of `samples` go beyond it. Samples
    that are calibration samples too go beyond nothing, and are refused unless `allow_same`. Each
    set is run once, and memory does not grow with it.
    """
    given = open_model(model)
    if given.framework != "onnx":
        raise BadModelError(
            f"{given.name} is a PyTorch model, and ranges are read from ONNX files; export the "
            f"float model with torch.onnx.export"
        )
    opened = given.as_onnx("calibration")
    if not opened.is_float:
        raise BadModelError(
            f"{opened.name} is quantized already, so its ranges are set; give the float model that "
            f"it was made from"
        )
    chosen = samples_for(opened, calibration)
    others = None if samples is None else samples_for(opened, samples)
    if others is not None and not allow_same:
        check_apart(chosen, others)
    values, left_out = _values(opened)
    kept = {name: RangeKeeper() for name in values}
    for first, name, (low, high) in read_extremes(
        opened, tuple(values), chosen, what="Calibrating", threads=threads, progress=progress
    ):
        kept[name].add(low, high, first)
    found = {name: each for name, each in kept.items() if each.ends is not None}
    left_out |= {
        name: "it has no row a sample, or no finite value" for name in values if name not in found
    }
    if not found:
        raise BadDataError(
            f"No tensor of {opened.name} has a finite range over {chosen.name}; "
            f"quantscope evaluate {opened.path} says what its outputs are"
        )
    beyond = _overflow(opened, found, others, threads, progress)
    runnable = open_runnable(opened, execution="reference")
    return CalibrationInspection(
        model=opened.name,
        digest=opened.digest,
        calibration=chosen.name,
        calibration_digest=chosen.digest,
        calibration_samples=len(chosen),
        data="" if others is None else others.name,
        data_digest="" if others is None else others.digest,
        samples=0 if others is None else len(others),
        sample_word=sample_word(chosen),
        tensors=tuple(
            _tensor(name, values[name], keeper, chosen, others, beyond.get(name))
            for name, keeper in found.items()
        ),
        left_out=left_out,
        notes=(_FOLDED_NOTE,) if any("folded" in why for why in left_out.values()) else (),
        provenance=runnable.provenance,
    )


def check_apart(calibration: Samples, samples: Samples) -> None:
    """Refuse samples of which more are calibration samples as well than chance has it."""
    if shared := shared_rows(samples, calibration):
        rows = many(len(samples), sample_word(samples))
        raise BadDataError(
            f"{shared:,} of the {rows} of {samples.name} are calibration {sample_word(samples)}s "
            f"too, and go beyond no range that they set; give others with --data, or allow it with "
            f"--allow-calibration-data"
        )


def _values(model: OnnxModel) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """Give the values that get ranges, each with its layer and operator, and why others do not."""
    network = model.network
    readers: dict[str, set[str]] = {}
    for layer in network.layers:
        for operand in layer.activations:
            readers.setdefault(operand.name, set()).add(layer.op_type)
    outputs = {port.name for port in model.outputs}
    values = {port.name: (port.name, "Input") for port in network.inputs if port.dtype == "float32"}
    left_out: dict[str, str] = {}
    for layer in network.layers:
        folded = _CLIPS | ({"BatchNormalization"} if layer.op_type in _WEIGHTED else set())
        for operand in layer.outputs:
            if operand.dtype not in ("float32", None):
                left_out[operand.name] = f"it is {operand.dtype}"
            elif layer.op_type in MOVING_OPS:
                left_out[operand.name] = "it only moves the values of another"
            elif operand.name not in outputs and readers.get(operand.name, {""}) <= folded:
                reader = " or ".join(sorted(readers[operand.name]))
                left_out[operand.name] = f"only a {reader} reads it, which is folded"
            else:
                values[operand.name] = (layer.name, layer.op_type)
    return values, left_out


def _overflow(
    model: OnnxModel,
    found: dict[str, RangeKeeper],
    samples: Samples | None,
    threads: int,
    progress: Progress,
) -> dict[str, OverflowKeeper]:
    if samples is None:
        return {}
    kept: dict[str, OverflowKeeper] = {}
    for name, each in found.items():
        assert each.ends is not None, "those without were left out"
        kept[name] = OverflowKeeper(each.ends.low.value, each.ends.high.value)
    what = "Looking for values beyond"
    for first, name, (low, high) in read_extremes(
        model, tuple(found), samples, what=what, threads=threads, progress=progress
    ):
        kept[name].add(low, high, first)
    return kept


def _tensor(
    name: str,
    made_by: tuple[str, str],
    keeper: RangeKeeper,
    calibration: Samples,
    samples: Samples | None,
    beyond: OverflowKeeper | None,
) -> TensorRange:
    ends = keeper.ends
    assert ends is not None, "those without were left out"
    return TensorRange(
        name=name,
        layer=made_by[0],
        op_type=made_by[1],
        low=_end(ends.low, calibration),
        high=_end(ends.high, calibration),
        growth=keeper.points(len(calibration)),
        overflow=None if beyond is None or samples is None else beyond.finish(samples.indices),
    )


def _end(end: End, samples: Samples) -> RangeEnd:
    assert end.sample is not None, "every row is a sample here"
    return RangeEnd(
        value=end.value,
        sample=int(samples.indices[end.sample]),
        sample_name=samples.row_names[end.sample] if samples.row_names else "",
        channel=end.channel,
        without=end.without,
    )
