"""Read layers of a quantized model under edits, and of its float original, on the same samples."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.cure.layer_errors import ErrorSums, LayerError
from quantscope.cure.results import LeftOut
from quantscope.data import Samples
from quantscope.edit import Edit, Editor
from quantscope.errors import BadDataError
from quantscope.model import Layer, Network
from quantscope.progress import Progress, silent
from quantscope.run import EditedValues, open_runnable

Array = NDArray[Any]

WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "FusedConv", "Linear"})
_AFFINE = frozenset({"BatchNormalization", "Add", "Sub", "Mul", "Div"})
_CONVOLVES = frozenset({"Conv", "ConvTranspose", "FusedConv"})


@dataclass(frozen=True)
class WeightedLayer:
    """A layer with quantized weights whose output both networks compute.

    `value` and `float_value` are the names of that output in the two files: what the layer gives
    before its quantizer and before a ReLU. `axis` counts its channels. `bias` is None where the
    layer has none of its own that counts in steps of its scales.
    """

    layer: Layer
    value: str
    float_value: str
    axis: int
    bias: str | None

    @property
    def name(self) -> str:
        return self.layer.name


class Readings:
    """An editor, its float original and calibration samples, for many lists of edits.

    Samples are run batch by batch and nothing but sums is kept, so memory does not grow with them.
    """

    def __init__(self, editor: Editor, samples: Samples) -> None:
        self.editor, self.samples = editor, samples
        self._base = open_runnable(editor.model, execution="reference")
        self.original, self.pairing = editor.against
        self._floats = open_runnable(self.original, execution="reference")
        self.layers, self.left_out = _match(editor)

    @property
    def provenance(self) -> Mapping[str, str]:
        return self._base.provenance

    def read(
        self,
        edits: Sequence[Edit],
        names: Sequence[str],
        float_names: Sequence[str] = (),
        *,
        what: str,
        progress: Progress = silent,
    ) -> Iterator[tuple[Mapping[str, Array], Mapping[str, Array]]]:
        """Give values of the edited model and of the float one, batch by batch."""
        edited = None
        if names:
            edited = EditedValues(self._base, self.editor.apply(edits), names)
        done, total = 0, len(self.samples)
        for batch in self._base.intake.batches(self.samples):
            found = {} if edited is None else edited.read(batch.feeds)
            floats = self._floats.values(float_names, batch.feeds) if float_names else {}
            done += batch.samples
            progress(what, done, total)
            if batch.samples < batch.rows:
                # Copies that fill a batch up are no samples; where no axis counts rows, all goes.
                found = {name: _rows(array, batch) for name, array in found.items()}
                floats = {name: _rows(array, batch) for name, array in floats.items()}
                if any(array.size == 0 for array in (*found.values(), *floats.values())):
                    continue
            _check_finite(self.editor.model.name, found)
            _check_finite(self.original.name, {name: floats[name] for name in float_names})
            yield found, floats

    @cached_property
    def float_means(self) -> dict[str, Array]:
        """The mean of every channel of every layer's float output, by the layer's name."""
        return {}

    def find_float_means(self, progress: Progress = silent) -> Mapping[str, Array]:
        """Run the float network once; what is known is not found again."""
        if not self.float_means:
            sums = {each.name: MeanSum(each.axis) for each in self.layers}
            names = [each.float_value for each in self.layers]
            what = "Running the float network"
            for _, floats in self.read((), (), names, what=what, progress=progress):
                for each in self.layers:
                    sums[each.name].add(floats[each.float_value])
            self.float_means.update({name: each.mean for name, each in sums.items()})
        return self.float_means

    def divided_by(self, edits: Sequence[Edit]) -> Mapping[str, Array]:
        """Give what edits divide the channels of layers' outputs by, by the layer's name."""
        found: dict[str, Array] = {}
        for pair, factors in self.editor.rescaled_by(edits):
            found[pair.first.name] = found.get(pair.first.name, 1.0) * factors
        return found

    def errors(
        self, edits: Sequence[Edit], *, what: str = "Comparing layers", progress: Progress = silent
    ) -> tuple[LayerError, ...]:
        """Find each layer's error under these edits; none where no layer has a counterpart.

        Channels that edits rescale are compared in the float network's units.
        """
        divided = self.divided_by(edits)
        if not self.layers:
            return ()
        sums = {each.name: ErrorSums(each.name, each.axis) for each in self.layers}
        names = [each.value for each in self.layers]
        float_names = [each.float_value for each in self.layers]
        for found, floats in self.read(edits, names, float_names, what=what, progress=progress):
            for each in self.layers:
                values = found[each.value]
                if each.name in divided:
                    values = values * _along(divided[each.name], values.ndim, each.axis)
                sums[each.name].add(floats[each.float_value], values)
        return tuple(each.result() for each in sums.values())


class MeanSum:
    """Adds up the channels of a value, batch by batch, in float64."""

    def __init__(self, axis: int) -> None:
        self._axis, self._count = axis, 0
        self._sum: Array = np.zeros(())

    def add(self, values: Array) -> None:
        over = tuple(at for at in range(values.ndim) if at != self._axis % values.ndim)
        self._sum = self._sum + values.sum(axis=over, dtype=np.float64)
        self._count += values.size // values.shape[self._axis]

    @property
    def mean(self) -> Array:
        return np.asarray(self._sum / max(self._count, 1))


def _along(factors: Array, rank: int, axis: int) -> Array:
    shape = [1] * rank
    shape[axis] = factors.size
    return factors.reshape(shape)


def _rows(array: Array, batch: Any) -> Array:
    kept = batch.samples if array.ndim and array.shape[0] == batch.rows else 0
    return array[:kept] if array.ndim else np.empty(0, array.dtype)


def _check_finite(model: str, values: Mapping[str, Array]) -> None:
    for name, array in values.items():
        if not np.isfinite(array).all():
            raise BadDataError(
                f"{model} gives NaN or infinity for {name} on the calibration samples: no mean can "
                f"be held against that"
            )


def _match(editor: Editor) -> tuple[tuple[WeightedLayer, ...], tuple[LeftOut, ...]]:
    """Find the layers that both networks compute; say of each other one with weights why not."""
    original, pairing = editor.against
    partners = {pair.layer: pair for pair in pairing.layers}
    paired = {pair.layer: pair for pair in pairing.pairs if pair.role == "activation"}
    biases: dict[str, list[str]] = {}
    for site in editor.bias_sites:
        biases.setdefault(site.name, []).append(site.layer)
    own = {layers[0]: name for name, layers in biases.items() if len(layers) == 1}
    found, left_out = [], []
    for layer in editor.stated_network.layers:
        if layer.op_type not in WEIGHTED or layer.weight is None:
            continue
        pair = partners.get(layer.name)
        if pair is None:
            left_out.append(LeftOut(layer.name, "it has no counterpart in the float model"))
            continue
        place = paired.get(layer.name)
        if place is not None and (place.order or place.reshaped):
            left_out.append(LeftOut(layer.name, "its float output lies in another order"))
            continue
        value = _before_clips(original.network, pair.float_layer, pair.folded)
        axis = 1 if layer.op_type in _CONVOLVES else -1
        found.append(WeightedLayer(layer, layer.outputs[0].name, value, axis, own.get(layer.name)))
    return tuple(found), tuple(left_out)


def _before_clips(network: Network, name: str, folded: Sequence[str]) -> str:
    """Name what the float layer gives, with what is folded into its weights but not its ReLU."""
    layers = {layer.name: layer for layer in network.layers}
    value = layers[name].outputs[0].name
    for each in folded:
        layer = layers.get(each)
        if layer is None or layer.op_type not in _AFFINE:
            break
        value = layer.outputs[0].name
    return value
