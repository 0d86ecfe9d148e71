"""The configuration of a quantization: one value for library, command line and app."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from quantscope.errors import BadConfigError

Backend = Literal["onnxruntime", "torch"]
ActivationType = Literal["int8", "uint8", "int16", "uint16"]
WeightType = Literal["int8", "uint8"]
Calibration = Literal["minmax", "entropy", "percentile"]
Observer = Literal["minmax", "moving-average", "histogram"]
WeightObserver = Literal["minmax", "histogram"]
Format = Literal["qdq", "qoperator", "pt2e"]
TorchQuantizer = Literal["x86", "quantscope"]

ENTROPY_BINS = 128
PERCENTILE_BINS = 2048


@dataclass(frozen=True)
class LayerOverride:
    """The options of one layer that differ from the rest; None is "as the rest".

    `activations` is the type of what the layer writes (after the ReLU that is folded into it).
    """

    layer: str
    left_float: bool = False
    activations: ActivationType | None = None
    weights: WeightType | None = None
    per_channel: bool | None = None

    def __post_init__(self) -> None:
        _check_choice("activations", self.activations, ActivationType, optional=True)
        _check_choice("weights", self.weights, WeightType, optional=True)
        if not isinstance(self.layer, str) or not self.layer:
            raise BadConfigError("An override names no layer; give the layer's name")
        if self.left_float and self.changes_type:
            raise BadConfigError(
                f"Layer '{self.layer}' is to be left float and to have a type of its own; "
                "choose one of them"
            )

    @property
    def changes_type(self) -> bool:
        return (self.activations, self.weights, self.per_channel) != (None, None, None)


@dataclass(frozen=True)
class PtqConfig:
    """A post-training quantization. What was not said (None) is filled in for the framework.

    `calibration`, `percentile` and `histogram_bins` are onnxruntime's, `observer`,
    `weight_observer` and `torch_quantizer` are torch's; the other framework's stay None. "x86" is
    torchao's own X86InductorQuantizer with its defaults, taken where the rest of the config is
    what it does; "quantscope" places its quantizers as onnxruntime does, so that the two
    frameworks can be compared.
    """

    framework: Backend = "onnxruntime"
    activations: ActivationType | None = None
    weights: WeightType = "int8"
    calibration: Calibration | None = None
    percentile: float | None = None
    histogram_bins: int | None = None
    observer: Observer | None = None
    weight_observer: WeightObserver | None = None
    torch_quantizer: TorchQuantizer | None = None
    calibration_images: int = 256
    calibration_seed: int = 0
    per_channel: bool = True
    symmetric_activations: bool = False
    reduce_range: bool = False
    format: Format | None = None
    overrides: tuple[LayerOverride, ...] = ()

    def __post_init__(self) -> None:
        _check_choice("framework", self.framework, Backend)
        for name, kind in _CHOICES.items():
            _check_choice(name, getattr(self, name), kind, optional=name != "weights")
        _check_types(self)
        object.__setattr__(self, "overrides", tuple(self.overrides))
        if self.calibration_images < 1:
            raise BadConfigError(
                f"Calibration needs at least 1 image; {self.calibration_images} were asked for"
            )
        if self.calibration_seed < 0:
            raise BadConfigError(f"A calibration seed is 0 or more, not {self.calibration_seed}")
        _check_once(override.layer for override in self.overrides)
        if self.framework == "onnxruntime":
            _complete_onnxruntime(self)
        else:
            _complete_torch(self)

    @property
    def left_float(self) -> tuple[str, ...]:
        return tuple(override.layer for override in self.overrides if override.left_float)

    def label(self) -> str:
        """Give a short name for tables and figures."""
        weights = "" if self.weights == "int8" else f" × {self.weights}"
        method: str = self.calibration or self.observer or ""
        usual = {"entropy": ENTROPY_BINS, "percentile": PERCENTILE_BINS}.get(method)
        if self.percentile is not None:
            method += f" {self.percentile:g}"
        if self.histogram_bins != usual:
            method += f" ({self.histogram_bins} bins)"
        if self.weight_observer == "histogram":
            method += " (weights too)"
        parts = [
            f"{self.activations}{weights}",
            "per channel" if self.per_channel else "per tensor",
            f"{method} {self.calibration_images}",
        ]
        parts += ["symmetric"] if self.symmetric_activations else []
        parts += ["7-bit weights"] if self.reduce_range else []
        parts += [f"seed {self.calibration_seed}"] if self.calibration_seed else []
        if floats := self.left_float:
            parts.append(f"float: {', '.join(floats)}")
        if others := [o.layer for o in self.overrides if o.changes_type]:
            parts.append(f"own types: {', '.join(others)}")
        names = {"qdq": "QDQ", "qoperator": "QOperator", "pt2e": "PT2E"}
        parts.append(
            names[self.format or "qdq"] + (" x86" if self.torch_quantizer == "x86" else "")
        )
        return " · ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Give plain values for JSON; `from_dict` gives an equal config."""
        return asdict(self) | {"overrides": [asdict(override) for override in self.overrides]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "PtqConfig":
        """Read a config from plain values, such as a person's file has."""
        _check_keys(values, [f.name for f in fields(cls)], "A quantization")
        overrides = values.get("overrides", ())
        names = [f.name for f in fields(LayerOverride)]
        if not isinstance(overrides, list | tuple):
            raise BadConfigError(f"overrides is {overrides!r}; it must be a list of tables")
        for override in overrides:
            if not isinstance(override, Mapping):
                raise BadConfigError(f"An override is {override!r}; it must be a table of options")
            _check_keys(override, names, "An override")
            if "layer" not in override:
                raise BadConfigError("An override names no layer; give the layer's name")
        made = tuple(LayerOverride(**override) for override in overrides)
        return cls(**{**values, "overrides": made})


_CHOICES: dict[str, Any] = {
    "activations": ActivationType,
    "weights": WeightType,
    "calibration": Calibration,
    "observer": Observer,
    "weight_observer": WeightObserver,
    "torch_quantizer": TorchQuantizer,
    "format": Format,
}


def closest(name: str, known: Iterable[str], *, count: int = 3) -> str:
    """Say "closest: a, b", or all there are if none is close, twelve at most."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=count, cutoff=0.5)
    if near:
        return f"closest: {', '.join(near)}"
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return f"there are: {', '.join(names[:12])}{more}"


def _check_keys(values: Mapping[str, Any], known: list[str], what: str) -> None:
    for key in values:
        if key not in known:
            raise BadConfigError(f"{what} has no option '{key}'; {closest(key, known)}")


def _check_types(config: PtqConfig) -> None:
    """Refuse values of a wrong type, which may come from a person's file."""
    wanted: dict[str, tuple[type, ...]] = {
        "calibration_images": (int,),
        "calibration_seed": (int,),
        "histogram_bins": (int, type(None)),
        "percentile": (int, float, type(None)),
        **dict.fromkeys(("per_channel", "symmetric_activations", "reduce_range"), (bool,)),
    }
    for name, kinds in wanted.items():
        value = getattr(config, name)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            kind = {int: "a whole number", bool: "true or false"}[kinds[0]]
            raise BadConfigError(
                f"{name} is {value!r}; it must be {'a number' if float in kinds else kind}"
            )


def _check_choice(name: str, value: object, kind: Any, *, optional: bool = False) -> None:
    choices = get_args(kind)
    if value is not None and not isinstance(value, str):
        raise BadConfigError(f"{name} is {value!r}; choose one of: {', '.join(choices)}")
    if value not in choices and not (optional and value is None):
        raise BadConfigError(f"{name} is {value!r}; choose one of: {', '.join(choices)}")


def _check_once(layers: Iterable[str]) -> None:
    seen: set[str] = set()
    for layer in layers:
        if layer in seen:
            raise BadConfigError(f"Layer '{layer}' has two overrides; give one")
        seen.add(layer)


def _fill(config: PtqConfig, **defaults: object) -> None:
    """Set what was not said, in place: the config is frozen, but still being made."""
    for name, value in defaults.items():
        if getattr(config, name) is None:
            object.__setattr__(config, name, value)


def _complete_onnxruntime(config: PtqConfig) -> None:
    """Fill in onnxruntime's defaults; refuse what it cannot do."""
    for name in ("observer", "weight_observer", "torch_quantizer"):
        if getattr(config, name) is not None:
            raise BadConfigError(
                f"{name} is an option of torch; onnxruntime takes calibration: "
                f"{', '.join(get_args(Calibration))}"
            )
    _fill(config, activations="int8", calibration="minmax", format="qdq")
    if config.format == "pt2e":
        raise BadConfigError("onnxruntime writes qdq or qoperator; pt2e is torch's format")
    if config.calibration == "percentile":
        _fill(config, percentile=99.99, histogram_bins=PERCENTILE_BINS)
    elif config.percentile is not None:
        raise BadConfigError(
            f"percentile {config.percentile:g} is given but calibration is {config.calibration}; "
            "percentile goes with calibration percentile"
        )
    if config.calibration == "entropy":
        _fill(config, histogram_bins=ENTROPY_BINS)
    _check_histogram(config)
    if config.weights == "uint8":
        _check_unsigned_weights(config)
    if config.format == "qoperator":
        _check_qoperator(config)


def _check_histogram(config: PtqConfig) -> None:
    if config.percentile is not None and not 50 <= config.percentile <= 100:
        hint = " (99.99, not 0.9999)" if 0 < config.percentile <= 1 else ""
        raise BadConfigError(f"percentile is {config.percentile:g}; choose 50 to 100{hint}")
    if config.histogram_bins is None:
        return
    if config.calibration == "minmax":
        raise BadConfigError(
            "histogram_bins goes with calibration entropy or percentile; minmax has no histogram"
        )
    if not ENTROPY_BINS <= config.histogram_bins <= 8192 or config.histogram_bins % 2:
        raise BadConfigError(
            f"histogram_bins is {config.histogram_bins}; choose an even number, 128 to 8192"
        )


def _check_unsigned_weights(config: PtqConfig) -> None:
    if config.activations == "int8":
        raise BadConfigError(
            "onnxruntime's quantize_static refuses int8 activations with uint8 weights; "
            "use int8 weights or uint8 activations"
        )
    if config.format == "qoperator" and config.per_channel:
        raise BadConfigError(
            "onnxruntime's qoperator stores per-channel weights as int8 whatever is asked; "
            "use int8 weights, per tensor, or qdq"
        )


def _check_qoperator(config: PtqConfig) -> None:
    if config.activations in ("int16", "uint16"):
        raise BadConfigError(
            f"onnxruntime has {config.activations} activations only in qdq; "
            "choose qdq, int8 or uint8"
        )
    for override in config.overrides:
        if override.changes_type:
            raise BadConfigError(
                f"Layer '{override.layer}' is to have a type of its own, which onnxruntime's "
                "qoperator cannot; use qdq, or leave the layer float"
            )


def _complete_torch(config: PtqConfig) -> None:
    """Fill in torch's defaults; refuse what it cannot do."""
    for name in ("calibration", "percentile", "histogram_bins"):
        if getattr(config, name) is not None:
            raise BadConfigError(
                f"{name} is an option of onnxruntime; torch takes observer: "
                f"{', '.join(get_args(Observer))}"
            )
    if config.format not in (None, "pt2e"):
        raise BadConfigError(
            f"torch writes pt2e, not {config.format}; for ONNX give --onnx FILE as well"
        )
    _fill(
        config, activations="uint8", observer="histogram", weight_observer="minmax", format="pt2e"
    )
    types = {config.activations, *(override.activations for override in config.overrides)}
    if wide := types & {"int16", "uint16"}:
        raise BadConfigError(
            f"torch is given {min(filter(None, wide))} activations, which only onnxruntime's qdq "
            "has here; choose int8 or uint8"
        )
    per_channel = config.per_channel or any(override.per_channel for override in config.overrides)
    if config.weight_observer == "histogram" and per_channel:
        raise BadConfigError(
            "torch has no histogram observer per channel; use weight_observer minmax or per tensor"
        )
    reason = _not_x86(config)
    if config.torch_quantizer == "x86" and reason:
        raise BadConfigError(
            f"torchao's x86 quantizer always has {reason}; use torch_quantizer quantscope"
        )
    _fill(config, torch_quantizer="quantscope" if reason else "x86")


def _not_x86(config: PtqConfig) -> str:
    """Name what the x86 defaults have and this config has not; "" where it has all."""
    wanted = {
        "uint8 activations": config.activations == "uint8",
        "int8 weights": config.weights == "int8",
        "weights per channel": config.per_channel,
        "asymmetric activations": not config.symmetric_activations,
        "8-bit weights": not config.reduce_range,
        "the histogram observer": config.observer == "histogram",
        "the minmax observer for weights": config.weight_observer == "minmax",
        "every layer alike": not config.overrides,
    }
    return next((what for what, holds in wanted.items() if not holds), "")
