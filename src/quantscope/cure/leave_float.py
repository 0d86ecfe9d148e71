"""Leave float, or give more bits: the layers that pay, by name, block, operator or by ranking.

Which layers pay is measured, not guessed: each is switched off alone, the network is run on the
calibration samples, and the layers come in the order in which that brings its outputs nearer.
"""

from collections.abc import Iterator, Sequence

from quantscope.cure.outcome import OutputError
from quantscope.cure.readings import Readings
from quantscope.cure.results import Cure, DoesNotApplyError, LeftOut, Treated
from quantscope.cure.treatment import (
    ModelOrEditor,
    check_matched,
    finish,
    join_reasons,
    open_readings,
)
from quantscope.data import SamplesSource
from quantscope.edit import Edit, Off, SetBits
from quantscope.errors import BadConfigError, QuantscopeError
from quantscope.model import Layer, ModelSource
from quantscope.plain_text import many
from quantscope.progress import Progress, silent
from quantscope.quantize import closest

KIND = "leave float"


def leave_float(
    model: ModelOrEditor,
    samples: SamplesSource,
    *,
    targets: Sequence[str] = (),
    most: int | None = None,
    bits: int | None = None,
    edits: Sequence[Edit] = (),
    float_model: ModelSource | None = None,
    progress: Progress = silent,
) -> Cure:
    """Take the quantization of layers back, or with `bits` give them as many.

    A target is a layer, a block (`stack3` for all `stack3.…`) or an operator (`Conv`); none means
    every layer with quantized weights. `most` takes only so many of them: those that bring the
    outputs on the samples nearest to the float network's, each measured alone. With neither it is
    the one layer that pays most.
    """
    if most is not None and most < 1:
        raise BadConfigError(f"{most} layers are to be left float; give 1 or more")
    readings = open_readings(model, samples, float_model)
    if not targets and most is None:
        most = 1
    editor, in_force = readings.editor, tuple(edits)
    if not targets:
        check_matched("Ranking layers to leave float", readings)
    chosen = list(_chosen(readings, targets))
    left_out: list[LeftOut] = []
    fitting: list[tuple[Layer, Edit]] = []
    for layer in chosen:
        edit: Edit = Off(layer.name) if bits is None else SetBits(layer.name, bits)
        try:
            editor.preview([*in_force, edit])
        except QuantscopeError as error:
            left_out.append(LeftOut(layer.name, str(error)))
        else:
            fitting.append((layer, edit))
    if not fitting:
        raise DoesNotApplyError(
            f"Leaving layers float does not apply to {editor.model.name}: {join_reasons(left_out)}"
        )
    gains: dict[str, float] = {}
    if most is not None:
        gains = _rank(readings, fitting, in_force, progress)
        fitting.sort(key=lambda pair: -gains[pair[0].name])
        fitting = [pair for pair in fitting[:most] if gains[pair[0].name] > 0]
        if not fitting:
            raise DoesNotApplyError(
                f"Leaving layers float does not apply to {editor.model.name}: none of "
                f"{many(len(gains), 'layer')} alone brings the outputs nearer"
            )
    before = readings.errors(in_force, what="Comparing layers", progress=progress)
    partners = {pair.layer: pair.float_layer for pair in readings.pairing.layers}
    return finish(
        KIND if bits is None else f"{bits} bits",
        readings,
        explanation=_explanation(
            readings, [layer for layer, _ in fitting], bits, most, len(chosen)
        ),
        in_force=in_force,
        made=[edit for _, edit in fitting],
        treated=[
            Treated(
                layer.name,
                _what(layer, bits, gains.get(layer.name)),
                {
                    "sqnr_gain_db": gains.get(layer.name),
                    "float_layer": partners.get(layer.name),
                    "macs": layer.macs,
                    "weight_bytes": layer.weight_bytes,
                },
            )
            for layer, _ in fitting
        ],
        left_out=left_out,
        before=before,
        progress=progress,
    )


def exclusion_list(cure: Cure) -> str:
    """Write the layers that a cure leaves float as a file for `quantize --exclude-from`."""
    lines = [f"# {cure.explanation}"]
    for each in cure.treated:
        name = each.numbers.get("float_layer")
        # A layer without a counterpart has no name in the float model.
        lines.append(str(name) if name else f"# {each.where} has no counterpart")
    return "\n".join(lines) + "\n"


def _chosen(readings: Readings, targets: Sequence[str]) -> Iterator[Layer]:
    layers = readings.editor.network.layers
    if not targets:
        yield from (each.layer for each in readings.layers)
        return
    found: dict[str, Layer] = {}
    for target in targets:
        own = [layer for layer in layers if layer.name == target]
        named = own or [
            layer
            for layer in layers
            if layer.is_quantized
            and (layer.op_type == target or layer.name.startswith((f"{target}.", f"{target}/")))
        ]
        if not named:
            known = [*(x.name for x in layers), *sorted({x.op_type for x in layers})]
            raise BadConfigError(
                f"No layer, block or operator '{target}' in {readings.editor.model.name}; "
                f"{closest(target, known)}"
            )
        found |= {layer.name: layer for layer in named}
    yield from found.values()


def _rank(
    readings: Readings,
    fitting: Sequence[tuple[Layer, Edit]],
    in_force: tuple[Edit, ...],
    progress: Progress,
) -> dict[str, float]:
    """Measure how many dB nearer the outputs come with each layer alone."""
    outputs = OutputError(readings, in_force, progress)
    gains = {}
    for place, (layer, edit) in enumerate(fitting):
        progress("Measuring layers", place, len(fitting))
        gains[layer.name] = outputs.gain_db([edit])
    progress("Measuring layers", len(fitting), len(fitting))
    return gains


def _explanation(
    readings: Readings, layers: Sequence[Layer], bits: int | None, most: int | None, asked: int
) -> str:
    what = "is left float" if bits is None else f"has {bits} bits"
    if len(layers) > 1:
        what = "are left float" if bits is None else f"have {bits} bits"
    network = readings.editor.network
    known = [layer.macs or 0 for layer in layers]
    share = f", {sum(known) / network.macs:.1%} of the multiplications" if network.macs else ""
    how = ""
    if most is not None:
        only = " only" if len(layers) < min(most, asked) else ""
        how = f":{only} those of {asked} that help{'' if only else ' most'}, each measured alone"
    return f"{many(len(layers), 'layer')} {what}{share}{how}"


def _what(layer: Layer, bits: int | None, gain: float | None) -> str:
    text = f"{layer.op_type} {'left float' if bits is None else f'with {bits} bits'}"
    return text if gain is None else f"{text}: alone {gain:+.2f} dB at the outputs"
