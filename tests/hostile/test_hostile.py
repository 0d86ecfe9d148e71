"""Whatever is in a file: exit 0, or one line and exit 2, within 5 seconds and 500 MB."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hostile_places import cases
from kinds import KINDS

ATTACK = Path(__file__).with_name("attack.py")
CASES = {
    "onnx": 2500,
    "torch": 400,
    "hdf5": 400,
    "npz": 400,
    "pictures": 400,
    "study": 300,
    "text": 900,
    "place": len(cases()),
}
A_RUN = 100

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and drops capabilities")


def broken(kind: str, first: int, last: int) -> str:
    """The cases that broke a promise, a line each; `kind` may be all of them."""
    command = [sys.executable, ATTACK, kind, str(first), str(last)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    kinds = list(CASES) if kind == "all" else [kind]
    said = done.stderr.splitlines()[-len(kinds) :] if done.returncode in (0, 1) else []
    tried = {one["kind"]: one["cases"] for one in map(json.loads, said)}
    assert tried == dict.fromkeys(kinds, last - first), done.stderr
    return done.stdout


def test_every_kind_has_cases() -> None:
    assert CASES.keys() == KINDS.keys()
    assert sum(CASES.values()) >= 5000


def test_a_few_hostile_files_of_every_kind() -> None:
    """All in one process: loading the modules takes longer than the commands."""
    assert broken("all", 0, 5) == ""


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    ("kind", "first"), [(k, n) for k, count in CASES.items() for n in range(0, count, A_RUN)]
)
def test_thousands_of_hostile_files(kind: str, first: int) -> None:
    assert broken(kind, first, min(first + A_RUN, CASES[kind])) == ""
