"""What `import quantscope` promises. A change here is a change for users: say it in CHANGELOG."""

import importlib

import pytest

import quantscope

PUBLIC = [
    "Comparison",
    "Evaluation",
    "ImageSet",
    "Interactions",
    "Model",
    "Network",
    "PtqConfig",
    "QuantscopeError",
    "Recipe",
    "Samples",
    "Sensitivity",
    "Shapley",
    "WhatIf",
    "apply",
    "bundled_models",
    "calibration_set",
    "capture",
    "compare",
    "compare_evaluations",
    "evaluate",
    "interactions",
    "kernel_gap",
    "kernel_map",
    "load",
    "open_model",
    "paired",
    "quantize_model",
    "read_network",
    "sensitivity",
    "shapley",
    "trace_value",
]
ROOMS = [
    "arithmetic",
    "data",
    "diagnose",
    "edit",
    "model",
    "quantize",
    "report",
    "run",
    "study",
    "zoo",
]


def test_the_public_names_are_these() -> None:
    assert quantscope.__all__ == PUBLIC
    assert set(dir(quantscope)) == {*PUBLIC, "__version__"}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_can_be_used(name: str) -> None:
    assert callable(getattr(quantscope, name))
    assert name not in ROOMS, "a room's name would hide it once the room is imported"


def test_unknown_names_raise_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'quantise'"):
        quantscope.quantise  # noqa: B018


@pytest.mark.parametrize("room", ROOMS)
def test_a_rooms_public_names_exist(room: str) -> None:
    module = importlib.import_module(f"quantscope.{room}")
    assert module.__doc__
    assert all(hasattr(module, name) for name in module.__all__)
