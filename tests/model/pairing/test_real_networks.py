"""Networks that nobody here made: text detection, direction and recognition from a PyPI wheel.

Their names, opsets and operators are others than ours: depthwise convolutions, hard-swish written
out, attention, layer normalization, squeeze-and-excite, shapes that are computed.
"""

import logging
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import version_converter
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process
from pairing_oracle import scramble, sqnr_db, worst_rounding
from tiny_onnx import saved

from quantscope.errors import BadModelError
from quantscope.model import read_onnx
from quantscope.model.pairing import Pairing, pair_networks

pytestmark = pytest.mark.slow

WHEEL = "rapidocr-onnxruntime"
NETWORKS = {
    "ch_ppocr_mobile_v2.0_cls_infer": (1, 3, 48, 96),
    "ch_PP-OCRv4_det_infer": (1, 3, 64, 96),
    "ch_PP-OCRv4_rec_infer": (1, 3, 48, 64),
}
U8, U16, I16 = QuantType.QUInt8, QuantType.QUInt16, QuantType.QInt16
LEAST_DB = 15
PRECISE = {"activation_type": U16, "weight_type": I16}
WAYS: dict[str, dict[str, Any]] = {
    "int8": {},
    "uint8 per channel": {"activation_type": U8, "per_channel": True},
    "QOperator": {"quant_format": QuantFormat.QOperator, "activation_type": U8},
    "a pair for each reader": {"extra_options": {"DedicatedQDQPair": True}},
    "pairs at weights": {"extra_options": {"AddQDQPairToWeight": True}},
    "16-bit activations": {"activation_type": U16},
    "convolutions only": {"op_types_to_quantize": ["Conv"]},
}


class Noise(CalibrationDataReader):
    def __init__(self, shape: tuple[int, ...]) -> None:
        rng = np.random.default_rng(0)
        self.images = [{"x": rng.normal(0, 0.5, shape).astype(np.float32)} for _ in range(2)]
        self._rest = iter(self.images)

    def get_next(self) -> dict[str, Any] | None:  # type: ignore[override]
        return next(self._rest, None)


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    ort.set_default_logger_severity(3)
    yield
    logging.disable(logging.NOTSET)
    ort.set_default_logger_severity(2)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder)]
    done = subprocess.run([*command, WHEEL], capture_output=True, text=True, check=False)
    found = sorted(folder.glob("*.whl"))
    if done.returncode or not found:
        pytest.skip(f"pip cannot download {WHEEL}: {done.stderr.strip()[-200:]}")
    with zipfile.ZipFile(found[0]) as archive:
        archive.extractall(folder)
    return folder


class Real:
    """One network as float file, and quantized with or without onnxruntime's preparation."""

    def __init__(self, name: str, wheel: Path, folder: Path) -> None:
        self.folder, self.shape = folder, NETWORKS[name]
        proto = onnx.load(next(wheel.rglob(f"{name}.onnx")))
        for value in [*proto.graph.input, *proto.graph.output, *proto.graph.value_info]:
            for place, dim in enumerate(value.type.tensor_type.shape.dim):
                if dim.dim_value < 0:
                    dim.dim_param = f"{value.name}_{place}"
        self.float_path = saved(proto, folder, "float.onnx")
        # Scales for each channel need opset 13.
        newer = saved(version_converter.convert_version(proto, 13), folder, "newer.onnx")
        self.prepared = folder / "prepared.onnx"
        quant_pre_process(newer, self.prepared, skip_symbolic_shape=True)
        self._made: dict[str, Path] = {}
        self._pairings: dict[Path, Pairing] = {}

    def quantized(self, *, prepared: bool = True, **options: Any) -> Path:
        key = f"{prepared} {options}"
        if key not in self._made:
            self._made[key] = self.folder / f"quantized{len(self._made)}.onnx"
            start = self.prepared if prepared else self.float_path
            options = {"quant_format": QuantFormat.QDQ, **options}
            quantize_static(start, self._made[key], Noise(self.shape), **options)
        return self._made[key]

    def pairing(self, path: Path) -> Pairing:
        if path not in self._pairings:
            self._pairings[path] = pair_networks(read_onnx(self.float_path), read_onnx(path))
        return self._pairings[path]


@pytest.fixture(scope="module")
def real(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Real]:
    made: dict[str, Real] = {}

    def make(name: str) -> Real:
        if name not in made:
            made[name] = Real(name, wheel, tmp_path_factory.mktemp("real"))
        return made[name]

    return make


def share_paired(pairing: Pairing, path: Path) -> float:
    """Of the activations; every tensor must be paired or listed, once, and every reason said."""
    tensors = read_onnx(path).tensors
    names = [each.name for each in (*pairing.pairs, *pairing.unpaired)]
    assert sorted(names) == sorted(tensor.name for tensor in tensors)
    assert all(each.reason for each in pairing.unpaired)
    paired = sum(each.role == "activation" for each in pairing.pairs)
    return paired / sum(tensor.role == "activation" for tensor in tensors)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("prepared", [False, True])
def test_what_is_paired_has_the_same_values(
    real: Callable[[str], Real], name: str, prepared: bool
) -> None:
    """In 16 bits hardly anything is lost, so a wrong pair cannot hide behind rounding."""
    network = real(name)
    path = network.quantized(prepared=prepared, **PRECISE)
    pairing = network.pairing(path)
    assert share_paired(pairing, path) >= 0.95
    feed = Noise(network.shape).images[0]
    sqnr = sqnr_db(pairing, network.float_path, read_onnx(path), feed)
    assert {tensor: db for tensor, db in sqnr.items() if db < LEAST_DB} == {}
    assert not [each for each in pairing.unpaired if each.role != "activation"]
    assert max(worst_rounding(pairing, read_onnx(path)).values()) <= 0.51


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_quantizing_pairs_alike(
    real: Callable[[str], Real], name: str, way: str
) -> None:
    network = real(name)
    path = network.quantized(**WAYS[way])
    pairing = network.pairing(path)
    assert share_paired(pairing, path) >= 0.95
    proven = network.pairing(network.quantized(**PRECISE)).by_name
    both = [each for each in pairing.pairs if each.name in proven]
    assert len(both) > len(pairing.pairs) / 2
    if way != "convolutions only":  # there ReLUs stay where they were
        assert [each.float_name for each in both] == [proven[x.name].float_name for x in both]
    assert max(worst_rounding(pairing, read_onnx(path)).values()) <= 0.51


@pytest.mark.parametrize("name", NETWORKS)
def test_names_and_order_do_not_matter(
    real: Callable[[str], Real], name: str, tmp_path: Path
) -> None:
    network = real(name)
    path = network.quantized(**PRECISE)
    renamed = saved(scramble(onnx.load(path), seed=5), tmp_path)
    floats = sorted(each.float_name for each in network.pairing(path).pairs)
    again = network.pairing(renamed)
    assert sorted(each.float_name for each in again.pairs) == floats
    feed = Noise(network.shape).images[0]
    assert min(sqnr_db(again, network.float_path, read_onnx(renamed), feed).values()) > LEAST_DB


def test_one_network_is_not_taken_for_another(real: Callable[[str], Real]) -> None:
    one, other = (real(name) for name in list(NETWORKS)[1:])
    with pytest.raises(BadModelError, match="do not belong together"):
        pair_networks(read_onnx(one.float_path), read_onnx(other.quantized(**PRECISE)))
