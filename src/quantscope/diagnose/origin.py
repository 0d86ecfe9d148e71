"""How a quantized model was made, as far as its file says: the options and the calibration set."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, cast

from quantscope.data import Samples, SamplesSource, calibration_set, samples_for, shared_rows
from quantscope.errors import BadDataError, QuantscopeError
from quantscope.model import Model, Network, recorded_facts
from quantscope.plain_text import many
from quantscope.quantize import PtqConfig


@dataclass(frozen=True, eq=False)
class Origin:
    """The options that a model was quantized with, and its calibration samples.

    `is_recorded`: the file says the options; else they are those that its tensors look like.
    `calibration` is None where the samples are not known and none were given.
    """

    config: PtqConfig
    is_recorded: bool
    calibration: Samples | None
    calibration_digest: str | None

    def is_of(self, samples: Samples) -> bool:
        """Say whether the model was calibrated with these very samples."""
        digests = {self.calibration_digest}
        if self.calibration is not None:
            digests.add(self.calibration.digest)
        return samples.digest in digests


def find_origin(model: Model, original: Model, given: SamplesSource | None) -> Origin:
    """Read what the file says of how it was made; `given` are the calibration samples, if any."""
    facts = recorded_facts(model.metadata) or {}
    config = _recorded_config(facts)
    recorded = facts.get("calibration")
    digest = recorded.get("digest") if isinstance(recorded, dict) else None
    if given is not None:
        calibration: Samples | None = samples_for(original, given)
    else:
        calibration = _bundled(config, digest)
    return Origin(
        config or _guess(model.network),
        config is not None,
        calibration,
        digest if isinstance(digest, str) else None,
    )


def check_apart(origin: Origin, samples: Samples, *, model: str) -> None:
    """Refuse to judge a model by the samples that its ranges were made for."""
    if origin.is_of(samples):
        raise BadDataError(
            f"{samples.name} is what {model} was calibrated with: its ranges fit these samples "
            f"better than any others; give other samples with --data, or allow it with "
            f"--allow-calibration-data"
        )
    if origin.calibration is None:
        return
    if shared := shared_rows(origin.calibration, samples):
        raise BadDataError(
            f"{many(shared, 'row')} of {samples.name} are among the {len(origin.calibration):,} "
            f"that {model} was calibrated with: its ranges fit these better than others; give "
            f"others with --data, or allow it with --allow-calibration-data"
        )


def _recorded_config(facts: dict[str, Any]) -> PtqConfig | None:
    found = facts.get("config")
    if not isinstance(found, dict) or found.get("framework") != "onnxruntime":
        return None
    try:
        return PtqConfig.from_dict(found)
    except (QuantscopeError, TypeError):  # a file may say anything of itself
        return None


def _bundled(config: PtqConfig | None, digest: object) -> Samples | None:
    """Make CIFAR-10's calibration set again, if it is the one that the file names by its digest."""
    if config is None or not isinstance(digest, str):
        return None
    try:
        made = calibration_set(config.calibration_images, config.calibration_seed)
    except BadDataError:
        return None
    return made if made.digest == digest else None


def _guess(network: Network) -> PtqConfig:
    """Give the options that would make tensors like these."""
    kinds = {
        role: Counter(t.params.dtype for t in network.tensors if t.role == role)
        for role in ("activation", "weight")
    }
    usual = {role: (found.most_common(1) or [("int8", 0)])[0][0] for role, found in kinds.items()}
    per_channel = any(t.role == "weight" and not t.params.is_per_tensor for t in network.tensors)
    activations = usual["activation"]
    weights = "uint8" if usual["weight"] == "uint8" and activations != "int8" else "int8"
    return PtqConfig(
        activations=cast(Any, activations if activations in _ACTIVATIONS else "int8"),
        weights=cast(Any, weights),
        per_channel=per_channel,
    )


_ACTIVATIONS = ("int8", "uint8", "int16", "uint16")
