"""ReLUs and residual paths are said to be where the float network has them, and nowhere else."""

from pathlib import Path

import pytest

from quantscope.model import open_model, pair_models, residuals
from small_networks import NAMES, float_path, quantized

STATIC = ("qdq-uint8", "qoperator")
RESIDUALS = {
    "mobile": {"features.1.Add", "features.3.Add"},
    "shuffle": {"stage.0.Concat", "stage.1.Concat"},
    "detector": {"model.5", "model.8", *(f"head.{level}.Concat" for level in range(3))},
    "unet": {"up.0.Concat", "up.1.Concat"},
    "encoder": {
        *(f"encoder.layer.{layer}.Add" for layer in (0, 1)),
        # Not attention.self.Add, which adds the mask to the scores.
        *(f"encoder.layer.{layer}.attention.self.Add_1" for layer in (0, 1)),
    },
}


@pytest.mark.parametrize("name", NAMES)
def test_quantizers_stand_for_the_relus_of_the_float_network(name: str, tmp_path: Path) -> None:
    original = open_model(float_path(name, tmp_path))
    for form in STATIC:
        model = open_model(quantized(name, form, tmp_path))
        pairs = pair_models(original, model).by_name
        for tensor in model.network.tensors:
            if tensor.role == "activation" and tensor.name in pairs:
                assert tensor.folded_relu == pairs[tensor.name].through_relu, (form, tensor.name)


@pytest.mark.parametrize("name", NAMES)
def test_a_residual_path_skips_a_layer_with_weights(name: str, tmp_path: Path) -> None:
    for form in STATIC:
        network = open_model(quantized(name, form, tmp_path)).network
        found = {residual.layer for residual in residuals(network)}
        assert found == RESIDUALS.get(name, set()), form
