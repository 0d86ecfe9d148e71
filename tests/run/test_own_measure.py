"""A measure of one's own: what it is given, what it may give, and what is said where it fails."""

from pathlib import Path

import numpy as np
import pytest

from quantscope.data import Samples
from quantscope.errors import BadConfigError, BadDataError
from quantscope.run import find_measure
from quantscope.run.measure import score

COUNT = 300
RNG = np.random.default_rng(2)
OUTPUTS = {"boxes": RNG.normal(size=(COUNT, 2, 4)), "scores": RNG.normal(size=(COUNT, 3))}
LABELS = RNG.integers(0, 3, COUNT)
ROWS = Samples.from_arrays("rows", {"x": np.zeros((COUNT, 1))}, LABELS)

SOURCE = """
import numpy as np

def spread(outputs, targets):
    assert list(outputs) == ["boxes", "scores"] and targets.dtype == np.int64
    return outputs["boxes"].std(axis=(1, 2)) + targets

spread.higher_is_better = False
spread.unit = "px"

def unlabelled(outputs, targets):
    return np.full(len(outputs["boxes"]), targets is None)

def greedy(outputs, targets):
    outputs["boxes"][:] = 0
    return np.zeros(len(outputs["boxes"]))

def divides(outputs, targets):
    return 1 / 0

def one_number(outputs, targets):
    return 3.0

def texts(outputs, targets):
    return ["a"] * len(outputs["boxes"])

def nothing(outputs, targets):
    return None

def nan(outputs, targets):
    found = np.zeros(len(outputs["boxes"]))
    found[7] = np.nan
    return found

constant = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


def test_a_function_gets_outputs_by_name_and_targets_and_gives_a_number_a_row(file: Path) -> None:
    found = score(find_measure(f"{file}:spread"), OUTPUTS, ROWS)
    expected = OUTPUTS["boxes"].std(axis=(1, 2)) + LABELS
    np.testing.assert_allclose(found.per_sample, expected)
    assert (found.measure, found.unit, found.higher_is_better) == ("mine.py:spread", "px", False)


def test_lower_is_better_can_be_said_on_the_command_line(file: Path) -> None:
    spec = f"{file}:unlabelled"
    assert find_measure(spec).higher_is_better
    assert not find_measure(spec, lower_is_better=True).higher_is_better


def test_targets_are_none_where_there_are_no_labels(file: Path) -> None:
    rows = Samples.from_arrays("rows", {"x": np.zeros((COUNT, 1))})
    measure = find_measure(f"{file}:unlabelled")
    assert score(measure, OUTPUTS, rows).value == 1
    assert score(measure, OUTPUTS, ROWS).value == 0


def test_a_function_cannot_change_the_outputs(file: Path) -> None:
    before = OUTPUTS["boxes"].copy()
    score(find_measure(f"{file}:greedy"), OUTPUTS, ROWS)
    np.testing.assert_array_equal(OUTPUTS["boxes"], before)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("divides", r"^mine\.py:divides raised ZeroDivisionError: division by zero \(line \d+ of "),
        (
            "one_number",
            r"^mine\.py:one_number gave float64 of shape \[\] for 256 rows; it must give",
        ),
        (
            "texts",
            r"^mine\.py:texts gave <U1 of shape \[256\] for 256 rows; it must give one number",
        ),
        ("nothing", r"^mine\.py:nothing gave object of shape \[\] for 256 rows"),
        ("nan", r"^mine\.py:nan gave nan for row 7; it must give a finite number for every row$"),
    ],
)
def test_a_measure_that_fails_is_one_line(file: Path, name: str, message: str) -> None:
    with pytest.raises(BadDataError, match=message) as raised:
        score(find_measure(f"{file}:{name}"), OUTPUTS, ROWS)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{file}:gone", r"has no function 'gone'; it has spread, unlabelled, greedy, "),
        ("{file}:constant", r"has no function 'constant'"),
        ("{file}:", r"is named FILE\.py:FUNCTION, not"),
        ("{folder}/none.py:f", r"^There is no file .*none\.py with a measure in it$"),
        ("{folder}/text.txt:f", r"is named FILE\.py:FUNCTION, not"),
        (
            "top7",
            r"^There is no measure 'top7'; give top1, agreement, signal, noise or FILE\.py:FUNC",
        ),
    ],
)
def test_what_is_no_measure_is_one_line(file: Path, spec: str, message: str) -> None:
    with pytest.raises(BadConfigError, match=message):
        find_measure(spec.format(file=file, folder=file.parent))


def test_a_file_that_cannot_be_loaded_is_one_line(tmp_path: Path) -> None:
    for name, source in {"syntax": "def (", "import": "import nothing_of_that_name"}.items():
        path = tmp_path / f"{name}.py"
        path.write_text(source)
        with pytest.raises(
            BadConfigError, match=rf"^{name}\.py cannot be loaded: \w+Error"
        ) as found:
            find_measure(f"{path}:f")
        assert "\n" not in str(found.value)


def test_only_ones_own_measure_may_be_turned_round() -> None:
    with pytest.raises(BadConfigError, match=r"^Higher is better in top1"):
        find_measure("top1", lower_is_better=True)
