"""A study's TOML file and the preset become configurations, or one clear line."""

from collections import Counter
from pathlib import Path

import pytest

from quantscope.errors import BadConfigError
from quantscope.quantize import PtqConfig
from quantscope.study import StudyConfig, StudyPlan, preset, read_plan


def plan(tmp_path: Path, text: str) -> StudyPlan:
    path = tmp_path / "study.toml"
    path.write_text(text)
    return read_plan(path)


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(BadConfigError) as caught:
        plan(tmp_path, text)
    line = str(caught.value)
    assert "\n" not in line
    return line.removeprefix(f"{tmp_path / 'study.toml'}: ")


def test_base_grid_and_single_configurations_come_together(tmp_path: Path) -> None:
    found = plan(
        tmp_path,
        """
        [base]
        calibration_images = 64

        [grid]
        activations = ["int8", "uint8"]
        per_channel = [true, false]

        [[config]]
        calibration = "percentile"
        percentile = 99.9
        int8_kernels = true

        [[config]]
        activations = "uint8"
        calibration_images = 32
        overrides = [{ layer = "head", left_float = true }]
        """,
    )
    assert len(found.configs) == 2 * 2 + 2
    assert found.configs[2] == StudyConfig(PtqConfig(activations="uint8", calibration_images=64))
    assert found.configs[4].int8_kernels is True
    assert found.configs[4].ptq.percentile == 99.9
    assert found.configs[4].label().endswith("QDQ · int8 kernels on")
    assert found.configs[5].ptq.left_float == ("head",)
    assert found.configs[5].ptq.calibration_images == 32
    assert found.skipped == ()


def test_several_grids_add_up_and_nothing_is_there_twice(tmp_path: Path) -> None:
    found = plan(
        tmp_path,
        """
        [[grid]]
        activations = ["int8", "uint8"]
        [[grid]]
        activations = ["uint8"]
        weights = ["int8", "uint8"]
        """,
    )
    assert [(c.ptq.activations, c.ptq.weights) for c in found.configs] == [
        ("int8", "int8"),
        ("uint8", "int8"),
        ("uint8", "uint8"),
    ]


def test_an_impossible_combination_of_a_grid_is_left_out_and_listed(tmp_path: Path) -> None:
    found = plan(
        tmp_path,
        """
        [grid]
        activations = ["int8", "uint8"]
        weights = ["int8", "uint8"]
        """,
    )
    assert len(found.configs) == 3
    (line,) = found.skipped
    assert line.startswith("activations = int8, weights = uint8: onnxruntime's quantize_static")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[[config]]\nweights = 'uint8'", "[[config]] 1: onnxruntime's quantize_static refuses"),
        ("[base]\nactivation = 'int8'", "[base] has no option 'activation'; closest: activations"),
        ("[grid]\npercenile = [99]", "[grid] 1 has no option 'percenile'; closest: percentile"),
        ("[[config]]\nfoo = 1", "[[config]] 1 has no option 'foo'; there are: framework"),
        ("[grids]\nactivations = []", "there is no section 'grids'; there are: base, grid"),
        ("[grid]\nactivations = 'int8'", "[grid] 1: activations must be a list of values, not"),
        ("[grid]\nactivations = ['int9']", "activations is 'int9'; it must be one of: int8"),
        ("[[config]]\ncalibration_images = '9'", "[[config]] 1: calibration_images is '9'; it"),
        ("[[config]]\ncalibration_images = true", "[[config]] 1: calibration_images is True; it"),
        ("[[config]]\nper_channel = 1", "[[config]] 1: per_channel is 1; it must be true or false"),
        ("[[config]]\noverrides = 'head'", "[[config]] 1: overrides must be a list of tables"),
        ("[[config]]\noverrides = [{layer = 3}]", "[[config]] 1: layer is 3; it must be text"),
        ("base = 3", "[base] must be a table of options"),
        ("config = [3]", "[[config]] must be a table of options"),
        ("", "it has no possible configuration; add a [grid] or [[config]]"),
        ("[grid]\nactivations = ['int8']\nweights = ['uint8']", "it has no possible configurat"),
        ("[grid", f"{'study.toml'} is not a TOML file: "),
    ],
)
def test_a_slip_in_the_file_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    assert refusal(tmp_path, text).removeprefix(f"{tmp_path}/").startswith(line)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a." * 100_000 + "a = 1", "is nested too deep"),
        ("[grid]\nactivations." + "a." * 3000 + "a = 1", "is nested too deep"),
        ("a = " + "[" * 100_000, "is nested too deep"),
        ("[[config]]\n" * 20_000, "it has 20,000 configurations; a study has at most 10,000"),
        ("[[grid]]\ncalibration_images = [1, 2]\n" * 6_000, "it has 12,000 configurations"),
    ],
)
def test_files_without_measure_are_one_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "large.toml").write_text(text)
    with pytest.raises(BadConfigError, match=said) as caught:
        read_plan(tmp_path / "large.toml")
    assert len(str(caught.value)) < 500


def test_files_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        BadConfigError, match=r"There is no file .*missing\.toml; give a study's TOML"
    ):
        read_plan(tmp_path / "missing.toml")
    with pytest.raises(BadConfigError, match="is a folder; give a study"):
        read_plan(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadConfigError, match="is not a TOML file"):
        read_plan(tmp_path / "binary.toml")


def test_the_preset_covers_what_it_promises() -> None:
    found = preset("ptq")
    configs = [config.ptq for config in found.configs]
    assert len(configs) == 42
    assert found.skipped == ()
    ort = [c for c in configs if c.framework == "onnxruntime"]
    core = {
        (c.activations, c.calibration, c.per_channel) for c in ort if c.calibration_images == 256
    }
    assert len(core) == 2 * 3 * 2
    sizes = {(c.calibration, c.calibration_images) for c in ort}
    assert sizes == {(m, n) for m in ("minmax", "entropy", "percentile") for n in (100, 256, 512)}
    assert Counter(c.format for c in ort) == {"qdq": 26, "qoperator": 4}
    assert {(c.activations, c.per_channel) for c in ort if c.reduce_range} == {
        (a, p) for a in ("int8", "uint8") for p in (True, False)
    }
    torch = [c for c in configs if c.framework == "torch"]
    assert len({(c.activations, c.observer, c.symmetric_activations) for c in torch}) == 2 * 3 * 2
    assert len(torch) == 12
    with pytest.raises(BadConfigError, match="There is no preset 'pqt'; there is: ptq"):
        preset("pqt")


def test_a_configuration_survives_json() -> None:
    for config in preset("ptq").configs:
        assert StudyConfig.from_dict(config.to_dict()) == config


def test_labels_of_the_preset_are_all_different() -> None:
    labels = [config.label() for config in preset("ptq").configs]
    assert len(set(labels)) == len(labels)
