"""A config says at once, in one line, what cannot be."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from quantscope.errors import BadConfigError
from quantscope.quantize import LayerOverride, PtqConfig

IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    (
        {"activations": "int8", "weights": "uint8"},
        "onnxruntime's quantize_static refuses int8 activations with uint8 weights; "
        "use int8 weights or uint8 activations",
    ),
    (
        {"activations": "uint8", "weights": "uint8", "format": "qoperator"},
        "onnxruntime's qoperator stores per-channel weights as int8 whatever is asked; "
        "use int8 weights, per tensor, or qdq",
    ),
    (
        {"activations": "int16", "format": "qoperator"},
        "onnxruntime has int16 activations only in qdq; choose qdq, int8 or uint8",
    ),
    (
        {"format": "qoperator", "overrides": (LayerOverride("stem", per_channel=False),)},
        "Layer 'stem' is to have a type of its own, which onnxruntime's qoperator cannot; "
        "use qdq, or leave the layer float",
    ),
    ({"format": "pt2e"}, "onnxruntime writes qdq or qoperator; pt2e is torch's format"),
    (
        {"observer": "histogram"},
        "observer is an option of torch; onnxruntime takes calibration: "
        "minmax, entropy, percentile",
    ),
    (
        {"percentile": 99.9},
        "percentile 99.9 is given but calibration is minmax; "
        "percentile goes with calibration percentile",
    ),
    (
        {"calibration": "percentile", "percentile": 0.9999},
        "percentile is 0.9999; choose 50 to 100 (99.99, not 0.9999)",
    ),
    (
        {"calibration": "percentile", "percentile": 100.5},
        "percentile is 100.5; choose 50 to 100",
    ),
    (
        {"histogram_bins": 512},
        "histogram_bins goes with calibration entropy or percentile; minmax has no histogram",
    ),
    (
        {"calibration": "entropy", "histogram_bins": 64},
        "histogram_bins is 64; choose an even number, 128 to 8192",
    ),
    ({"activations": "int4"}, "activations is 'int4'; choose one of: int8, uint8, int16, uint16"),
    ({"weights": None}, "weights is None; choose one of: int8, uint8"),
    ({"framework": "jax"}, "framework is 'jax'; choose one of: onnxruntime, torch"),
    ({"calibration_images": 0}, "Calibration needs at least 1 image; 0 were asked for"),
    ({"calibration_seed": -1}, "A calibration seed is 0 or more, not -1"),
    (
        {"overrides": (LayerOverride("stem"), LayerOverride("stem", left_float=True))},
        "Layer 'stem' has two overrides; give one",
    ),
    (
        {"framework": "torch", "calibration": "entropy"},
        "calibration is an option of onnxruntime; torch takes observer: "
        "minmax, moving-average, histogram",
    ),
    (
        {"framework": "torch", "format": "qdq"},
        "torch writes pt2e, not qdq; for ONNX give --onnx FILE as well",
    ),
    (
        {"framework": "torch", "activations": "uint16"},
        "torch is given uint16 activations, which only onnxruntime's qdq has here; "
        "choose int8 or uint8",
    ),
    (
        {"framework": "torch", "weight_observer": "histogram"},
        "torch has no histogram observer per channel; use weight_observer minmax or per tensor",
    ),
    (
        {"framework": "torch", "torch_quantizer": "x86", "activations": "int8"},
        "torchao's x86 quantizer always has uint8 activations; use torch_quantizer quantscope",
    ),
]


@pytest.mark.parametrize(("options", "text"), IMPOSSIBLE)
def test_impossible_combination_is_one_line_that_says_why(
    options: dict[str, Any], text: str
) -> None:
    with pytest.raises(BadConfigError) as raised:
        PtqConfig(**options)
    assert str(raised.value) == text


def test_layer_is_not_both_left_float_and_given_a_type() -> None:
    with pytest.raises(BadConfigError, match="to be left float and to have a type of its own"):
        LayerOverride("stem", left_float=True, weights="int8")


CONFIGS = [
    PtqConfig(),
    PtqConfig(calibration="percentile", percentile=99.5, activations="uint8", per_channel=False),
    PtqConfig(calibration="entropy", histogram_bins=2048, reduce_range=True, calibration_seed=3),
    PtqConfig(format="qoperator", overrides=(LayerOverride("head", left_float=True),)),
    PtqConfig(overrides=(LayerOverride("stem", activations="int16", per_channel=False),)),
    PtqConfig(framework="torch"),
    PtqConfig(framework="torch", activations="int8", observer="minmax", symmetric_activations=True),
]


@pytest.mark.parametrize("config", CONFIGS, ids=PtqConfig.label)
def test_config_survives_json(config: PtqConfig) -> None:
    assert PtqConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_labels_are_short_and_tell_configs_apart() -> None:
    assert [config.label() for config in CONFIGS] == [
        "int8 · per channel · minmax 256 · QDQ",
        "uint8 · per tensor · percentile 99.5 256 · QDQ",
        "int8 · per channel · entropy (2048 bins) 256 · 7-bit weights · seed 3 · QDQ",
        "int8 · per channel · minmax 256 · float: head · QOperator",
        "int8 · per channel · minmax 256 · own types: stem · QDQ",
        "uint8 · per channel · histogram 256 · PT2E x86",
        "int8 · per channel · minmax 256 · symmetric · PT2E",
    ]


def test_what_was_not_said_is_filled_in_for_the_framework() -> None:
    ours, torchs = asdict(PtqConfig()), asdict(PtqConfig(framework="torch"))
    assert (ours["activations"], ours["calibration"], ours["observer"]) == ("int8", "minmax", None)
    assert (torchs["activations"], torchs["calibration"]) == ("uint8", None)
    assert (torchs["observer"], torchs["torch_quantizer"]) == ("histogram", "x86")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"per_chanel": True},
            "A quantization has no option 'per_chanel'; closest: per_channel, percentile",
        ),
        ({"calibration_images": "many"}, "calibration_images is 'many'; it must be a whole number"),
        ({"percentile": "99"}, "percentile is '99'; it must be a number"),
        ({"per_channel": 1}, "per_channel is 1; it must be true or false"),
        (
            {"activations": ["int8"]},
            "activations is ['int8']; choose one of: int8, uint8, int16, uint16",
        ),
        ({"overrides": "stem"}, "overrides is 'stem'; it must be a list of tables"),
        ({"overrides": ["stem"]}, "An override is 'stem'; it must be a table of options"),
        (
            {"overrides": [{"layer": "stem", "float": True}]},
            "An override has no option 'float'; closest: left_float",
        ),
        (
            {"overrides": [{"left_float": True}]},
            "An override names no layer; give the layer's name",
        ),
    ],
)
def test_unknown_option_in_a_file_is_named_with_its_closest(
    values: dict[str, Any], text: str
) -> None:
    with pytest.raises(BadConfigError) as raised:
        PtqConfig.from_dict(values)
    assert str(raised.value) == text
