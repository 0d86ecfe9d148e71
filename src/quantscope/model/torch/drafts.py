"""This module works out what PyTorch's files leave unsaid of their quantized tensors."""

from collections.abc import Collection, Mapping, Sequence

from quantscope.model.assemble import Draft, Step

# Their output has the integers of their input, so quantizers around them were made alike.
KEEPS_PARAMS = frozenset({"Concat", "Flatten", "MaxPool", "Pad", "Reshape", "Squeeze", "Transpose"})

_NEVER_NEGATIVE = frozenset({"Abs", "Exp", "HardSigmoid", "Relu", "Sigmoid", "Softmax", "Softplus"})
_KEEPS_SIGN = frozenset(
    {"Add", "AveragePool", "Cast", "Concat", "Dropout", "Flatten", "GlobalAveragePool", "Identity",
     "MaxPool", "Mul", "Pad", "ReduceMean", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
)  # fmt: skip


def written_drafts(drafts: Sequence[Draft]) -> Mapping[str, Sequence[Draft]]:
    """Give the first quantizer of each value, by its float or its integer name.

    Further quantizers of one value are listed with the layers that read them.
    """
    first: dict[str, Sequence[Draft]] = {}
    for draft in drafts:
        for name in filter(None, (draft.float_name, *draft.integer_names)):
            first.setdefault(name, (draft,))
    return first


def relu_drafts(
    steps: Sequence[Step], drafts: Sequence[Draft], *, ends_in_relu: Collection[str] = ()
) -> set[Draft]:
    """Find the drafts that clip negatives which the layer before them can give.

    `ends_in_relu` are the values of steps with a ReLU of their own, such as `conv2d_relu`; their
    drafts do its work whether or not their parameters clip.
    """
    negative = _can_be_negative(steps, ends_in_relu)
    return {
        draft
        for draft in drafts
        if draft.value in ends_in_relu or (draft.value in negative and draft.clips_negatives)
    }


def _can_be_negative(steps: Sequence[Step], ends_in_relu: Collection[str]) -> set[str]:
    """Name the values that hold negatives for some input, as far as the operators tell."""
    never: set[str] = set(ends_in_relu)
    for step in steps:
        data = [reading for reading in step.reads if reading.role != "setting"]
        keeps = step.op_type in _KEEPS_SIGN and all(
            reading.origin in never or (reading.draft and reading.draft.clips_negatives)
            for reading in data
        )
        smallest = step.attributes.get("min_val", step.attributes.get("min"))
        clips = step.op_type == "Clip" and isinstance(smallest, int | float) and smallest >= 0
        if step.op_type in _NEVER_NEGATIVE or clips or (keeps and data):
            never.update(step.outputs)
    return {name for step in steps for name in step.outputs} - never
