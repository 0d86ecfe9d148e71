"""The pairing of quantized tensors with float ones, and the way to it (`pair_networks`)."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from quantscope.errors import BadModelError
from quantscope.model.network import Network, Operand, QuantTensor, Role
from quantscope.model.opened import Model
from quantscope.model.pairing.axes import in_order
from quantscope.model.pairing.constants import Array, Constants, constants_of, weight_likeness
from quantscope.model.pairing.fit import UNLIKE
from quantscope.model.pairing.kinds import AFFINE, CLIP, WEIGHTED, merges_rows, same_content
from quantscope.model.pairing.layers import Alignment, align
from quantscope.model.pairing.parameters import source_of
from quantscope.model.pairing.places import (
    Counterpart,
    Layouts,
    Reason,
    is_reshaped,
    layouts_of,
    origin_layer,
    place_of_output,
    place_of_tensor,
    shape_text,
)
from quantscope.model.pairing.wiring import wire

FoundBy = Literal["input", "weights", "structure", "order", "readers"]


@dataclass(frozen=True)
class TensorPair:
    """A quantized tensor `name`, and the float file's name for what it stands for.

    `layer` makes the tensor, or reads it if it is a constant; so does `float_layer` with
    `float_name`; both None for a model input. `through` are the operators between `layer`'s own
    counterpart and the float tensor that the quantized network does elsewhere: a ReLU that the
    quantizer does, a BatchNormalization in the weights. For a weight or bias they are those folded
    into it, so the float constant alone is not what it was rounded from. `reshaped` says that the
    same numbers are in another shape, or not known to be in the same (a weight may lie transposed).
    `found_by` is "readers" if its layer has no counterpart but its readers have, "order" if several
    would do and only the order of the layers decided. `order` has, for each axis of the activation,
    the float tensor's axis that it is, and is empty where they lie alike. `merges_rows` says that
    the first axis is the float one's batch and the axes after it in one: it counts no samples.
    """

    name: str
    role: Role
    float_name: str
    layer: str | None
    float_layer: str | None
    found_by: FoundBy
    through: tuple[str, ...] = ()
    through_relu: bool = False
    reshaped: bool = False
    order: tuple[int, ...] = ()
    merges_rows: bool = field(default=False, repr=False)
    read_float: Callable[[], Array | None] | None = field(default=None, repr=False, compare=False)

    def float_values(self) -> Array | None:
        """Read what a weight or bias was rounded from, folding included, laid out as stored.

        It is None for activations, and where the float file's constants cannot be read.
        """
        return self.read_float() if self.read_float is not None else None

    def to_dict(self) -> dict[str, Any]:
        hidden = ("read_float", "merges_rows")
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in hidden}


@dataclass(frozen=True)
class Unpaired:
    """A quantized tensor without a counterpart, and why, as a person reads it."""

    name: str
    role: Role
    reason: str


@dataclass(frozen=True)
class LayerPair:
    """A layer and its counterpart.

    `folded` are the float layers after `float_layer` whose work `layer` and its output do.
    """

    layer: str
    float_layer: str
    found_by: FoundBy
    folded: tuple[str, ...]


@dataclass(frozen=True)
class Pairing:
    """The counterparts of all quantized tensors: each is in `pairs` or in `unpaired`.

    `inputs` and `outputs` are names in the files, the quantized network's first.
    """

    float_model: str
    float_digest: str
    quantized_model: str
    quantized_digest: str
    pairs: tuple[TensorPair, ...]
    unpaired: tuple[Unpaired, ...]
    layers: tuple[LayerPair, ...]
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]

    @property
    def by_name(self) -> dict[str, TensorPair]:
        return {pair.name: pair for pair in self.pairs}

    def to_dict(self) -> dict[str, Any]:
        return {
            "float_model": self.float_model,
            "float_digest": self.float_digest,
            "quantized_model": self.quantized_model,
            "quantized_digest": self.quantized_digest,
            "pairs": [pair.to_dict() for pair in self.pairs],
            "unpaired": [asdict(each) for each in self.unpaired],
            "layers": [asdict(each) for each in self.layers],
            "inputs": dict(self.inputs),
            "outputs": dict(self.outputs),
        }


def pair_models(original: Model, model: Model) -> Pairing:
    """Pair two models that are open already: neither file is opened again."""
    constants = constants_of(original), constants_of(model)
    return pair_networks(original.network, model.network, constants=constants)


def pair_networks(
    float_network: Network,
    quantized: Network,
    *,
    constants: tuple[Constants, Constants] | None = None,
) -> Pairing:
    """Pair every quantized tensor, or say why not. Weights are read from both files.

    `constants` are the two networks' where somebody else wants them too, or has their files open.
    """
    _check_formats(float_network, quantized)
    float_constants, quant_constants = constants or (Constants(float_network), Constants(quantized))
    floats, quants = wire(float_network, float_constants), wire(quantized, quant_constants)
    inputs = _match_ends(float_network.inputs, quantized.inputs)
    outputs = _match_ends(float_network.outputs, quantized.outputs)
    _check_inputs(float_network, quantized)
    alignment = Alignment(
        floats=floats,
        quants=quants,
        float_constants=float_constants,
        quant_constants=quant_constants,
        inputs=inputs,
        outputs={quants.value(q): floats.value(f) for q, f in outputs.items()},
    )
    align(alignment)
    _check_belonging(alignment)
    layouts = layouts_of(alignment)
    placed = {
        layer: place_of_output(alignment, layer, layouts) for layer in sorted(alignment.matches)
    }
    paths = {layer: place.path for layer, place in placed.items() if isinstance(place, Counterpart)}
    found = [
        _activation(alignment, tensor, layouts)
        if tensor.role == "activation"
        else _parameter(alignment, tensor, paths)
        for tensor in quantized.tensors
    ]
    return Pairing(
        float_model=float_network.path.name,
        float_digest=float_network.digest,
        quantized_model=quantized.path.name,
        quantized_digest=quantized.digest,
        pairs=tuple(each for each in found if isinstance(each, TensorPair)),
        unpaired=(*(e for e in found if isinstance(e, Unpaired)), *_not_shown(quantized)),
        layers=tuple(_layer_pairs(alignment, paths)),
        inputs=tuple(inputs.items()),
        outputs=tuple(outputs.items()),
    )


def _not_shown(network: Network) -> Iterator[Unpaired]:
    """List the quantizers that the reader could not take for one; its notes say why."""
    for layer in network.layers:
        if layer.op_type == "QuantizeLinear":
            start = f"{layer.outputs[0].name} is not shown as quantized: "
            notes = (note[len(start) :] for note in network.notes if note.startswith(start))
            yield Unpaired(layer.name, "activation", next(notes, "its parameters are not known"))


def _parameter(
    alignment: Alignment, tensor: QuantTensor, paths: dict[int, tuple[int, ...]]
) -> TensorPair | Unpaired:
    found = source_of(alignment, tensor, paths)
    if isinstance(found, Reason):
        return Unpaired(tensor.name, tensor.role, found.text)
    return TensorPair(
        name=tensor.name,
        role=tensor.role,
        float_name=found.operand.name,
        layer=tensor.consumers[0] if tensor.consumers else None,
        float_layer=found.layer.name,
        found_by=found.found_by,
        through=found.through,
        reshaped=found.operand.shape != tensor.shape,
        read_float=found.read,
    )


def _activation(
    alignment: Alignment, tensor: QuantTensor, layouts: Layouts
) -> TensorPair | Unpaired:
    floats = alignment.floats
    place = place_of_tensor(alignment, tensor, layouts)
    if isinstance(place, Reason):
        return Unpaired(tensor.name, tensor.role, place.text)
    kinds = [floats.kinds[layer] for layer in place.path]
    made, shape = floats.made.get(place.value), floats.shapes.get(place.value)
    origin = origin_layer(alignment, tensor)
    match = None if origin is None else alignment.matches.get(origin)
    found_by: FoundBy = match.found_by if match else "readers"
    return TensorPair(
        name=tensor.name,
        role=tensor.role,
        float_name=place.value,
        layer=tensor.producer,
        float_layer=None if made is None else floats.network.layers[made.layer].name,
        found_by="input" if origin is None else found_by,
        through=tuple(
            floats.network.layers[layer].op_type
            for layer, kind in zip(place.path, kinds, strict=True)
            if (kind in AFFINE and layer not in floats.moves) or kind == CLIP
        ),
        through_relu=CLIP in kinds,
        reshaped=is_reshaped(alignment, tensor, place, layouts),
        order=place.order,
        merges_rows=merges_rows(tensor.shape, in_order(shape, place.order)),
    )


def _layer_pairs(alignment: Alignment, paths: dict[int, tuple[int, ...]]) -> Iterator[LayerPair]:
    layers = alignment.floats.network.layers
    for index, match in sorted(alignment.matches.items()):
        yield LayerPair(
            layer=alignment.quants.network.layers[index].name,
            float_layer=layers[match.layer].name,
            found_by=match.found_by,
            folded=tuple(layers[step].name for step in paths.get(index, ())),
        )


def _match_ends(floats: tuple[Operand, ...], quants: tuple[Operand, ...]) -> dict[str, str]:
    """Match inputs or outputs of the two: by name where all names are the same, else in order."""
    if len(floats) != len(quants):
        names = {operand.name for operand in floats}
        return {operand.name: operand.name for operand in quants if operand.name in names}
    if {operand.name for operand in floats} == {operand.name for operand in quants}:
        return {operand.name: operand.name for operand in quants}
    return {q.name: f.name for q, f in zip(quants, floats, strict=True)}


def _check_formats(float_network: Network, quantized: Network) -> None:
    if float_network.is_quantized:
        raise BadModelError(
            f"{float_network.path.name} is quantized ({len(float_network.tensors)} quantized "
            f"tensors, {float_network.format}); give the float model that "
            f"{quantized.path.name} was made from"
        )
    if not quantized.is_quantized:
        raise BadModelError(
            f"{quantized.path.name} is not quantized: it has no tensor to pair with "
            f"{float_network.path.name}; give a quantized model"
        )


def _check_inputs(float_network: Network, quantized: Network) -> None:
    names = float_network.path.name, quantized.path.name
    counts = len(float_network.inputs), len(quantized.inputs)
    if counts[0] != counts[1]:
        raise BadModelError(
            f"{names[0]} and {names[1]} do not belong together: they take {counts[0]} and "
            f"{counts[1]} inputs; give the float model that {names[1]} was made from"
        )
    inputs = {operand.name: operand for operand in float_network.inputs}
    for quant_name, float_name in _match_ends(float_network.inputs, quantized.inputs).items():
        there = inputs[float_name].shape
        here = next(o.shape for o in quantized.inputs if o.name == quant_name)
        if not same_content(there, here):
            raise BadModelError(
                f"{names[0]} and {names[1]} do not belong together: the input {float_name} is "
                f"{shape_text(there)}, {quant_name} is {shape_text(here)}; "
                f"give the float model that {names[1]} was made from"
            )


def _check_belonging(alignment: Alignment) -> None:
    """Raise unless most layers with weights have a counterpart, and most weights are alike."""
    quants, floats = alignment.quants, alignment.floats
    names = floats.network.path.name, quants.network.path.name
    remedy = f"give the float model that {names[1]} was made from"
    weighted = [layer for layer, kind in enumerate(quants.kinds) if kind in WEIGHTED]
    layers = weighted or list(range(len(quants.kinds)))
    missing = [layer for layer in layers if layer not in alignment.matches]
    if len(missing) * 2 > len(layers):
        first = quants.network.layers[missing[0]]
        what = "convolutions and matrix products" if weighted else "layers"
        raise BadModelError(
            f"{names[0]} and {names[1]} do not belong together: {len(missing)} of the "
            f"{len(layers)} {what} of {names[1]} have no counterpart, "
            f"the first is {first.name} ({first.op_type}); {remedy}"
        )
    likeness = dict(_likeness(alignment, weighted))
    unlike = [layer for layer, like in likeness.items() if like < UNLIKE]
    if len(unlike) * 2 > len(likeness):
        first = quants.network.layers[unlike[0]]
        raise BadModelError(
            f"{names[0]} and {names[1]} do not belong together: the layers match, but the weights "
            f"of {len(unlike)} of {len(likeness)} differ, first those of {first.name} "
            f"(cosine {likeness[unlike[0]]:.2f}); {remedy}"
        )


def _likeness(alignment: Alignment, weighted: list[int]) -> Iterator[tuple[int, float]]:
    quants, floats = alignment.quants, alignment.floats
    for layer in weighted:
        match = alignment.matches.get(layer)
        if match is None:
            continue
        kind = quants.kinds[layer]
        mine = alignment.quant_constants.weight_sample(quants.network.layers[layer], kind)
        theirs = alignment.float_constants.weight_sample(floats.network.layers[match.layer], kind)
        like = weight_likeness(mine, theirs) if mine and theirs else None
        if like is not None:
            yield layer, like
