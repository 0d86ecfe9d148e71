"""The rules of docs/architecture.md about who may import whom, and where tests lie."""

import ast
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


def imports_of(path: Path, *, only_at_import: bool = False) -> set[str]:
    """Modules imported anywhere in the file, or only those that loading the file imports."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        deferred = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        type_checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if only_at_import and (deferred or type_checking):
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found.update(names if node.module == "quantscope" else [node.module or ""])
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text()))
    return found


def is_inside(path: Path, module: str) -> bool:
    """Whether a file lies in the folder of a module, or below it."""
    return path.is_relative_to(SOURCE.parent / Path(*module.split(".")).parent)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(SOURCE).as_posix())
def test_imports_run_one_way(path: Path) -> None:
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if room.startswith("__"):
        return
    assert room in RANKS, f"{room} is not a room of docs/architecture.md"
    for module in imports_of(path):
        target = room_of(module) if module.startswith("quantscope") else None
        if target in (None, room, "", "__version__"):
            continue
        assert RANKS[target] < RANKS[room], f"{room} must not import {target} ({module})"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(SOURCE).as_posix())
def test_folders_are_entered_by_their_door(path: Path) -> None:
    if path == SOURCE / "__init__.py":
        return
    passed_by = {
        module
        for module in imports_of(path)
        if module in MODULE_NAMES
        and module not in OPEN
        and module.rpartition(".")[0] != "quantscope.app.panes"  # a pane is taken by its name
        and not is_inside(path, module)
    }
    assert not passed_by, f"{path.name} imports {passed_by}; take it from the folder"


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


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(SOURCE).as_posix())
def test_frameworks_stay_in_their_rooms(path: Path) -> None:
    name = path.relative_to(SOURCE).as_posix()
    frameworks = {module.split(".")[0] for module in imports_of(path)}
    if frameworks & {"torch", "torchao"}:
        inside = TORCH_FOLDERS & set(path.relative_to(SOURCE).parts[:-1])
        assert name in TORCH_MODULES or inside, f"{name} imports torch"
    if "marimo" in frameworks:
        assert name.startswith("app/"), f"{name} imports marimo"
    if name.startswith("arithmetic/"):
        own = {"numpy", "ml_dtypes", "quantscope"}
        assert frameworks <= own | set(sys.stdlib_module_names), f"{name} is not NumPy only"


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


@pytest.mark.parametrize("path", TESTS, ids=lambda p: p.relative_to(TESTS_FOLDER).as_posix())
def test_tests_lie_in_the_folder_of_what_they_test(path: Path) -> None:
    folder = path.parent.relative_to(TESTS_FOLDER)
    assert (SOURCE / folder).is_dir() or folder.as_posix() in OF_NO_ROOM


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


@pytest.mark.parametrize(
    "door",
    [path for path in MODULES if path.name == "__init__.py"],
    ids=lambda p: p.relative_to(SOURCE).as_posix(),
)
def test_a_room_describes_files_that_are_there(door: Path) -> None:
    described = ast.get_docstring(ast.parse(door.read_text())) or ""
    named = re.findall(r"`([\w/]+\.(?:py|js|css))`", described)
    # A NAME stands for one that somebody will choose.
    missing = [
        name
        for name in named
        if "NAME" not in name
        and not any((folder / name).is_file() for folder in door.parents)
        and not any(door.parent.rglob(name))
    ]
    assert not missing, f"{door.parent.name} describes {missing}, which are not there"
