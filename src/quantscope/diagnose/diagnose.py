"""Find out what is wrong with a quantized model, what it costs, and what helps.

Everything is run once and shared: one comparison, from which findings are made; one sweep, which
measures the account, the layers and what each finding costs; one evaluation of the kernels that
ship. Tries come after that, if they are asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from quantscope.data import Samples, SamplesSource, samples_for
from quantscope.diagnose.account import layer_candidates, make_account
from quantscope.diagnose.attempts import changed_config, try_all
from quantscope.diagnose.bench import Bench
from quantscope.diagnose.calibrated import calibrated_ends
from quantscope.diagnose.evidence import Evidence
from quantscope.diagnose.findings import (
    dead_notes,
    find_all,
    find_in_answers,
    find_suspects,
    matters,
)
from quantscope.diagnose.input_stats import InputStats, input_stats
from quantscope.diagnose.kernels import Cpu, Kernels, kernel_notes
from quantscope.diagnose.origin import Origin, check_apart, find_origin
from quantscope.diagnose.results import Account, Attempt, Diagnosis, Finding, Gain
from quantscope.diagnose.sample_ends import EndsKeeper
from quantscope.edit import Edit, Editor, Off, OffRole
from quantscope.errors import BadDataError, BadModelError, QuantscopeError
from quantscope.model import ModelSource, open_model
from quantscope.model.onnx import OnnxModel
from quantscope.plain_text import many
from quantscope.progress import Progress, silent
from quantscope.run import (
    Ends,
    MeasureSource,
    best_ranges,
    find_measure,
    kernel_map,
    open_runnable,
    sample_word,
)
from quantscope.run.compare import compare_run

LEAST_SAMPLES = 32
"""Fewer rows say nothing: a share of 32 has an interval of a third."""
GOOD_SAMPLES = 1000

_WEIGHTS, _ACTIVATIONS, _BOTH = "all weights float", "all activations float", "both float"
_LAYER, _FINDING = "layer ", "finding "


def diagnose(
    model: ModelSource,
    samples: SamplesSource,
    *,
    float_model: ModelSource | None = None,
    calibration: SamplesSource | None = None,
    tries: bool = False,
    cpu: Cpu = "this",
    measure: MeasureSource | None = None,
    allow_calibration_data: bool = False,
    threads: int = 0,
    progress: Progress = silent,
) -> Diagnosis:
    """Diagnose a quantized ONNX model on samples that it was not calibrated with.

    `calibration` are the samples that its ranges were found from; bundled models know theirs.
    `tries` tries what each finding proposes. `cpu` "no-vnni" predicts the kernels of such a CPU
    where this one is another, which takes long. Scores are of the arithmetic that the file states;
    the account says what the kernels that ship change.
    """
    opened = open_model(model).as_onnx("diagnose")
    _check_quantized(opened)
    editor = Editor(opened, float_model)
    samples = samples_for(opened, samples)
    _check_enough(samples)
    original = editor.against[0].as_onnx("diagnose")
    origin = find_origin(opened, original, calibration)
    if not allow_calibration_data:
        check_apart(origin, samples, model=opened.name)
    chosen = find_measure(measure) if isinstance(measure, str) else measure
    kernels = Kernels(cpu, threads)
    evidence = _gather(editor, samples, origin, kernels, progress)
    found = tuple(_without_vain(finding, origin) for finding in find_all(evidence))
    bench = Bench(editor, samples, chosen, threads)
    candidates = layer_candidates(editor, evidence.comparison)
    bench.run(
        _variants(editor, candidates.chosen, found), what="Switching parts off", progress=progress
    )
    bench.check_finite()
    if bench.is_exact:
        raise BadModelError(
            f"{opened.name} gives bit for bit what {original.name} gives on "
            f"{many(len(samples), sample_word(samples))} of {samples.name}: there is nothing to "
            f"diagnose"
        )
    bench.keep("runtime", kernels.outputs(opened, samples, progress=progress))
    account = replace(
        make_account(bench, candidates, names=(_WEIGHTS, _ACTIVATIONS, _BOTH, _LAYER)),
        kernels_of=kernels.owner,
    )
    found += find_in_answers(evidence, bench, found)
    ranked = rank([each for each in (_with_cost(f, bench) for f in found) if matters(each)])
    together: Attempt | None = None
    if tries:
        ranked, together = try_all(ranked, bench, origin, account.loss, kernels, progress=progress)
    return Diagnosis(
        model=opened.name,
        digest=opened.digest,
        float_model=original.name,
        float_digest=original.digest,
        execution="reference",
        data=samples.name,
        data_digest=samples.digest,
        images=len(samples),
        sample_word=sample_word(samples),
        calibration=None if origin.calibration is None else origin.calibration.name,
        account=account,
        findings=ranked,
        was_tried=tries,
        together=together,
        notes=(
            *_notes(original, samples, account),
            *([f"{note}."] if (note := evidence.network.run_time_note) else ()),
            *dead_notes(evidence),
            *kernel_notes(evidence.network, evidence.kernels, kernels),
        ),
        provenance=evidence.comparison.provenance,
    )


def rank(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Put what costs most first: what surely costs before what may be chance, and that by SQNR."""

    def key(finding: Finding) -> tuple[float, ...]:
        cost = finding.cost
        if cost is None:
            return 2, 0.0, 0.0
        sure = cost.helps
        return 0 if sure else 1, -cost.value if sure else 0.0, -(cost.sqnr_change_db or 0.0)

    return tuple(sorted(findings, key=key))


def _check_quantized(model: OnnxModel) -> None:
    if model.is_float:
        raise BadModelError(
            f"{model.name} is a float model: nothing in it is quantized, so there is nothing to "
            f"diagnose; quantize it first: {model.quantize_command}"
        )


def _check_enough(samples: Samples) -> None:
    if len(samples) < LEAST_SAMPLES:
        raise BadDataError(
            f"{many(len(samples), sample_word(samples))} of {samples.name} say too little to find "
            f"a cause: {LEAST_SAMPLES} would do for a large loss, {GOOD_SAMPLES:,} for one of 2 "
            f"points"
        )


def _gather(
    editor: Editor, samples: Samples, origin: Origin, kernels: Kernels, progress: Progress
) -> Evidence:
    model = editor.model.as_onnx("diagnose")
    original, pairing = editor.against
    quantized = open_runnable(model, execution="reference", threads=1)
    floats = open_runnable(original, execution="reference", threads=1)
    keeper = EndsKeeper()
    comparison = compare_run(
        quantized.against(floats, pairing),
        samples,
        threads=kernels.threads,
        observe=keeper.observe,
        progress=progress,
    )
    known: Mapping[str, Ends] | None = None
    stats: tuple[Mapping[str, InputStats], ...] = ({}, {})
    if origin.calibration is not None:
        known = calibrated_ends(original, pairing, origin.calibration, progress=progress)
        stats = input_stats(original, samples), input_stats(original, origin.calibration)
    evidence = Evidence(
        editor=editor,
        samples=samples,
        comparison=comparison,
        ends=keeper.ends,
        typical_spans=keeper.typical_spans,
        kernels=kernel_map(model),
        saturates=bool(kernels.saturates),
        kernels_of=kernels.owner.partition(",")[0],
        calibration=origin.calibration if known else None,
        calibration_ends=known,
        data_inputs=stats[0],
        calibration_inputs=stats[1],
    )
    tailed = find_suspects(evidence)
    if not tailed or known is None or origin.calibration is None:
        return evidence
    counted = best_ranges(
        model, origin.calibration, tailed, float_model=original, progress=progress
    )
    return replace(evidence, best_ranges={each.tensor: each for each in counted.ranges})


def _variants(
    editor: Editor, layers: Sequence[str], findings: Sequence[Finding]
) -> Mapping[str, Sequence[Edit]]:
    """Give all that one sweep measures: the account, the layers, and what findings are about."""
    variants: dict[str, Sequence[Edit]] = {
        _WEIGHTS: [OffRole("weights")],
        _ACTIVATIONS: [OffRole("activations")],
        _BOTH: [OffRole("weights"), OffRole("activations")],
    }
    variants |= {_LAYER + name: [Off(name)] for name in layers}
    variants |= {
        _FINDING + f.kind: [Off(name) for name in f.tensors]
        for f in findings
        if f.cost_of == "tensors" and _can_be_off(editor, f.tensors)
    }
    return variants


def _can_be_off(editor: Editor, tensors: Sequence[str]) -> bool:
    """Say whether all of them can be switched off; else what they cost cannot be measured."""
    try:
        editor.preview([Off(name) for name in tensors])
    except QuantscopeError:
        return False
    return bool(tensors)


def _with_cost(finding: Finding, bench: Bench) -> Finding:
    cost: Gain | None = None
    if finding.cost_of == "tensors" and bench.knows(_FINDING + finding.kind):
        cost = bench.gain_of(_FINDING + finding.kind)
    elif finding.cost_of == "kernels":
        cost = bench.gain(bench.base, over=bench.outputs("runtime"))
    elif finding.cost_of == "class" and bench.samples.targets is not None:
        cost = bench.gain(bench.with_float_answers(np.isin(bench.samples.targets, finding.labels)))
    return replace(finding, cost=cost)


def _without_vain(finding: Finding, origin: Origin) -> Finding:
    """Leave out options that the model was made with already."""

    def changes(options: Mapping[str, object]) -> bool:
        try:
            return changed_config(origin.config, options) != origin.config
        except QuantscopeError:
            return True

    kept = tuple(r for r in finding.remedies if not r.options or changes(r.options))
    return replace(finding, remedies=kept)


def _notes(original: OnnxModel, samples: Samples, account: Account) -> list[str]:
    notes = []
    if original.is_stand_in:
        notes.append(f"No float original is known; instead of it: {original.name}.")
    if samples.is_random:
        notes.append(f"{samples.name} are made-up rows: what they cost says little of real ones.")
    if account.would_do is not None:
        notes.append(
            f"What the stated arithmetic loses may be chance; about {account.would_do:,} samples "
            f"would tell a loss of this size from it."
        )
    return notes
