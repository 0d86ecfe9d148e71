"""Find the rows to use for a model when nobody gave any, and say what they are."""

import numpy as np

from quantscope.data import Intake, Samples, load, load_sample
from quantscope.errors import QuantscopeError
from quantscope.model import Model

ROWS = 32


def usual_samples(model: Model) -> Samples:
    """CIFAR-10's images for a model that takes them and tells ten classes apart; else random."""
    if takes_cifar10(model):
        return load_sample()
    return random_samples(model)


def given_samples(model: Model, data: str) -> Samples:
    """Load what `--data` names for this model."""
    return random_samples(model) if data == "random" else load(data)


def takes_cifar10(model: Model) -> bool:
    sample = load_sample()
    ends = [output.shape for output in model.outputs]
    if len(ends) != 1 or ends[0] is None or ends[0][-1] != len(sample.class_names):
        return False
    try:
        Intake.of(model).feeder(sample)(0, 1)
    except QuantscopeError:
        return False
    return True


def random_samples(model: Model) -> Samples:
    rng = np.random.default_rng(0)
    intake = Intake.of(model)
    arrays = {}
    for place, port in enumerate(intake.ports):
        row = [size or 8 for size in intake._row_shape(place) or ()]
        dtype = np.dtype(port.dtype)
        shape = (ROWS, *row)
        use = model.input_uses.get(port.name)
        if dtype.kind in "iu":
            below = use.ids_below if use and use.ids_below else 2
            arrays[port.name] = rng.integers(0, below, shape).astype(dtype)
        else:
            arrays[port.name] = rng.normal(0, 1, shape).astype(dtype)
    made = Samples.from_arrays("random rows", arrays)
    from dataclasses import replace

    return replace(made, is_random=True, origin="rows made at random from the model's inputs")
