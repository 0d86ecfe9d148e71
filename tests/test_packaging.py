"""What people get from an index: the wheel, the source distribution and the page about them."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d"]
    subprocess.run([*command, folder], cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def test_the_wheel_holds_the_package_its_marker_and_its_help(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert "quantscope/py.typed" in names
    assert "quantscope/docs/quantization/02-qlinearconv.md" in names
    assert any(name.endswith("/resnet8.onnx") for name in names)
    assert not [name for name in names if name.endswith(".in")]
    assert all(name.split("/")[0] in ("quantscope", "quantscope-0.1.0.dist-info") for name in names)


def test_the_sources_are_what_a_contributor_needs(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"} <= names
    assert {"Makefile", "constraints.txt", "notebooks/05_full_playground.py"} <= names
    assert {"docs/templates/02-qlinearconv.md.in", "tests/test_packaging.py"} <= names
    assert {"tools/render_docs.py", "benchmarks/__main__.py"} <= names


def test_what_is_said_of_it(metadata: Message) -> None:
    classifiers = metadata.get_all("Classifier", [])
    for version in ("3.11", "3.12", "3.13"):
        assert f"Programming Language :: Python :: {version}" in classifiers
    assert "Typing :: Typed" in classifiers
    assert metadata["Author"]
    assert {url.split(",")[0] for url in metadata.get_all("Project-URL", [])} >= {
        "Homepage",
        "Issues",
        "Changelog",
    }
    assert "typer>=0.19" in metadata.get_all("Requires-Dist", [])


def test_the_pages_pictures_have_absolute_addresses_of_files_that_are_here() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    home = project["urls"]["Homepage"].replace("github.com", "raw.githubusercontent.com")
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert pictures
    for address in pictures:
        assert address.startswith(f"{home}/main/")
        assert (ROOT / address.removeprefix(f"{home}/main/")).is_file()
