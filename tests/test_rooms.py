"""The rules of docs/architecture.md about who may import whom, and where tests lie."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "quantscope"

# A room may import only rooms of a lower rank, and itself.
RANKS = {
    "errors": 0,
    "progress": 0,
    "plain_text": 0,
    "files": 1,
    "arithmetic": 2,
    "model": 3,
    "data": 4,
    "zoo": 4,
    "quantize": 5,
    "edit": 5,
    "run": 6,
    "study": 7,
    "cure": 8,
    "diagnose": 9,
    "report": 10,
    "app": 11,
    "cli": 12,
}
TORCH_MODULES = {
    "zoo/torch_resnet8.py",
    "zoo/weights.py",
    "quantize/agreement.py",
    "quantize/pt2e.py",
    "quantize/pt2e_onnx.py",
    "quantize/pt2e_quantizer.py",
    "quantize/pt2e_subject.py",
}
TORCH_FOLDERS = {"torch", "torchscript"}
# Modules that are imported past their folder's door, whose `__init__` would load far more.
OPEN = {
    "quantscope.app.launch",
    "quantscope.quantize.agreement",
    "quantscope.quantize.pt2e",
    "quantscope.quantize.pt2e_onnx",
    "quantscope.quantize.pt2e_quantizer",
    "quantscope.zoo.torch_resnet8",
}
MODULES = sorted(SOURCE.rglob("*.py"))
MODULE_NAMES = {
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    for path in MODULES
    if path.name != "__init__.py"
}
TESTS_FOLDER = Path(__file__).parent
TESTS = sorted(TESTS_FOLDER.rglob("test_*.py"))
OF_NO_ROOM = {"docs", "hostile"}
"""Tests of the documents, and of all readers together."""


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


@functools.cache
def imports_of(path: Path) -> frozenset[str]:
    """Modules imported anywhere in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found.update(names if node.module == "quantscope" else [node.module or ""])
    return frozenset(found)


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def is_inside(path: Path, module: str) -> bool:
    """Whether a file lies in the folder of a module, or below it."""
    return path.is_relative_to(SOURCE.parent / Path(*module.split(".")).parent)


# Each rule is one test of all modules, which lists those that break it: a test for each module and
# rule would be two thousand, a third of all tests.
def test_imports_run_one_way() -> None:
    wrong = []
    for path in MODULES:
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room.startswith("__"):
            continue
        assert room in RANKS, f"{room} is not a room of docs/architecture.md"
        for module in imports_of(path):
            target = room_of(module) if module.startswith("quantscope") else None
            if target in (None, room, "", "__version__"):
                continue
            if RANKS[target] >= RANKS[room]:
                wrong.append(f"{name_of(path)}: {room} must not import {target} ({module})")
    assert wrong == []


def test_folders_are_entered_by_their_door() -> None:
    passed_by = [
        f"{name_of(path)} imports {module}; take it from the folder"
        for path in MODULES
        if path != SOURCE / "__init__.py"
        for module in imports_of(path)
        if module in MODULE_NAMES
        and module not in OPEN
        and module.rpartition(".")[0] != "quantscope.app.panes"  # a pane is taken by its name
        and not is_inside(path, module)
    ]
    assert passed_by == []


@pytest.mark.parametrize("feature", ["capture", "compare", "histograms", "whatif"])
def test_features_know_no_framework(feature: str) -> None:
    for path in (SOURCE / "run" / feature).glob("*.py"):
        known = {
            module
            for module in imports_of(path)
            if module.split(".")[0] in ("onnx", "onnxruntime", "torch")
            or module.startswith(("quantscope.run.onnx", "quantscope.run.torch"))
        }
        assert not known, f"{path.name} imports {known}; a Runnable gives what it needs"


def test_frameworks_stay_in_their_rooms() -> None:
    wrong = []
    for path in MODULES:
        name = name_of(path)
        frameworks = {module.split(".")[0] for module in imports_of(path)}
        inside = TORCH_FOLDERS & set(path.relative_to(SOURCE).parts[:-1])
        if frameworks & {"torch", "torchao"} and name not in TORCH_MODULES and not inside:
            wrong.append(f"{name} imports torch")
        if "marimo" in frameworks and not name.startswith("app/"):
            wrong.append(f"{name} imports marimo")
        own = {"numpy", "ml_dtypes", "quantscope"} | set(sys.stdlib_module_names)
        if name.startswith("arithmetic/") and not frameworks <= own:
            wrong.append(f"{name} is not NumPy only")
    assert wrong == []


def test_formats_do_not_know_each_other() -> None:
    model = SOURCE / "model"
    knows_onnx = {
        path.relative_to(model).as_posix()
        for path in model.rglob("*.py")
        if any(f"{module}.".startswith("quantscope.model.onnx.") for module in imports_of(path))
        and path.parent.name != "onnx"
    }
    assert knows_onnx == {"__init__.py", "opened.py"}
    assert not any(
        "quantscope.model.torchscript" in module
        for path in (model / "torch").glob("*.py")
        for module in imports_of(path)
    )


def test_tests_lie_in_the_folder_of_what_they_test() -> None:
    folders = {path.parent.relative_to(TESTS_FOLDER) for path in TESTS}
    lost = {f for f in folders if not (SOURCE / f).is_dir() and f.as_posix() not in OF_NO_ROOM}
    assert lost == set()


@pytest.mark.parametrize(
    "module",
    [
        "quantscope",
        "quantscope.cli",
        "quantscope.model",
        "quantscope.run",
        "quantscope.report.compare",
    ],
)
def test_importing_loads_no_heavy_framework(module: str) -> None:
    code = f"import sys, {module}; print(*{{'torch', 'marimo', 'matplotlib'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_room_describes_files_that_are_there() -> None:
    missing = []
    for door in (path for path in MODULES if path.name == "__init__.py"):
        described = ast.get_docstring(ast.parse(door.read_text())) or ""
        named = re.findall(r"`([\w/]+\.(?:py|js|css))`", described)
        missing += [
            f"{name_of(door)} describes {name}"
            for name in named
            if "NAME" not in name  # which stands for one that somebody will choose
            and not any((folder / name).is_file() for folder in door.parents)
            and not any(door.parent.rglob(name))
        ]
    assert missing == []
