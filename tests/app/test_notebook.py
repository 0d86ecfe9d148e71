"""The notebooks run as scripts, and marimo finds nothing wrong with them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))
PLAYGROUND = ROOT / "src" / "quantscope" / "app" / "playground.py"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_as_a_script(notebook: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", notebook],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_marimo_finds_nothing_wrong() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "marimo", "check", "--strict", *NOTEBOOKS, PLAYGROUND],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_notebooks_are_the_ones_the_docs_name() -> None:
    assert [path.name[:2] for path in NOTEBOOKS] == ["01", "02", "03", "04", "05"]
