"""Nothing of a PyTorch file runs before it was looked into: every way that torch has, closed.

Each hostile file would create a file. That it really would is shown with torch's own loader.
"""

import io
import json
import os
import pickle
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_archives import (
    CONSTANTS,
    PROGRAM,
    SAMPLES,
    WEIGHTS,
    json_change,
    rewritten,
    save_small,
    small,
    text_change,
)

from quantscope.errors import BadModelError
from quantscope.model import read_network
from quantscope.model.torch import open_pt2, torch_kind
from quantscope.run import open_runnable

Attack = Callable[[Path, Path, str], Path]


class Bomb:
    """Pickled, it is a call that creates a file."""

    def __init__(self, sentinel: str):
        self.sentinel = sentinel

    def __reduce__(self) -> Any:
        return (os.mkdir, (self.sentinel,))


def python(sentinel: str) -> str:
    return f"__import__('os').mkdir({sentinel!r})"


def saved(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small(tmp_path_factory.mktemp("program") / "small.pt2")


def pickled_weight(source: Path, target: Path, sentinel: str) -> Path:
    def by_pickle(config: Any) -> None:
        config["config"]["conv.bias"] |= {"use_pickle": True, "path_name": "weight_99"}

    members = {WEIGHTS: json_change(by_pickle), "data/weights/weight_99": saved(Bomb(sentinel))}
    return rewritten(source, target, members)


def pickled_example_inputs(source: Path, target: Path, sentinel: str) -> Path:
    return rewritten(source, target, {SAMPLES: saved(((Bomb(sentinel),), {}))})


def weights_of_an_older_torch(source: Path, target: Path, sentinel: str) -> Path:
    return rewritten(source, target, {"data/weights/model.pt": saved({"a": Bomb(sentinel)})})


def pickled_constant(source: Path, target: Path, sentinel: str) -> Path:
    meta = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    members = {
        CONSTANTS: json.dumps({"config": {"evil": meta}}).encode(),
        "data/constants/opaque_obj_0": pickle.dumps(Bomb(sentinel)),
    }
    return rewritten(source, target, members)


def symbolic_shape(source: Path, target: Path, sentinel: str) -> Path:
    def evaluated(value: Any) -> None:
        for meta in value["graph_module"]["graph"]["tensor_values"].values():
            meta["sizes"][:1] = [{"as_expr": {"expr_str": python(sentinel), "hint": None}}]

    return rewritten(source, target, {PROGRAM: json_change(evaluated)})


def name_in_generated_code(source: Path, target: Path, sentinel: str) -> Path:
    return rewritten(source, target, {PROGRAM: text_change("x", f"x={python(sentinel)}")})


def class_in_a_tree(source: Path, target: Path, sentinel: str) -> Path:
    """torch imports the module that a default dict's factory comes from."""
    (target.parent / "evil_module.py").write_text(f"{python(sentinel)}\nfactory = list\n")
    context = {
        "default_factory_module": "evil_module",
        "default_factory_name": "factory",
        "dict_context": [],
    }

    def imported(value: Any) -> None:
        signature = value["graph_module"]["module_call_graph"][0]["signature"]
        version, _ = json.loads(signature["out_spec"])
        kind = {"type": "collections.defaultdict", "context": context, "children_spec": []}
        signature["out_spec"] = json.dumps([version, kind])

    return rewritten(source, target, {PROGRAM: json_change(imported)})


RUNS_WHEN_LOADED: list[tuple[Attack, str]] = [
    (pickled_weight, r"conv\.bias is stored as a pickle or script object, which runs code"),
    (pickled_example_inputs, r"its example inputs are a pickle of (posix|nt)\.mkdir, which runs"),
    (weights_of_an_older_torch, r"it holds pickled weights, the way torch 2\.8 saved them"),
    (pickled_constant, r"it holds a pickled Python object \(data/constants/opaque_obj_0\)"),
    (symbolic_shape, r"is not plain arithmetic, and PyTorch evaluates shapes as Python code"),
    (name_in_generated_code, r"is no identifier, and PyTorch writes names into code that it runs"),
    (class_in_a_tree, r"are of the class 'collections\.defaultdict'; only tuples, lists and dicts"),
]


@pytest.mark.parametrize(
    ("attack", "message"), RUNS_WHEN_LOADED, ids=[a.__name__ for a, _ in RUNS_WHEN_LOADED]
)
def test_a_program_that_would_run_code_is_refused_before_it_is_loaded(
    attack: Attack,
    message: str,
    program: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    sentinel = tmp_path / "sentinel"
    path = attack(program, tmp_path / "evil.pt2", str(sentinel))
    for look in (open_pt2, torch_kind, read_network, open_runnable):
        if look is torch_kind:
            look(path)
            continue
        with pytest.raises(BadModelError, match=message) as refusal:
            look(path)
        assert "\n" not in str(refusal.value)
    assert not sentinel.exists()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.export.load(path)
        except Exception as error:  # it ran all the same, and that is the point
            print(error)
    assert sentinel.exists(), "torch's own loader does not run this: the test proves nothing"


def first_call(change: Callable[[Any], None]) -> Callable[[bytes], bytes]:
    def changed(value: Any) -> None:
        nodes = value["graph_module"]["graph"]["nodes"]
        change(next(node for node in nodes if node["target"].startswith("torch.ops.aten.relu")))

    return json_change(changed)


def call_that_makes_a_file(source: Path, target: Path, sentinel: str) -> Path:
    def called(node: Any) -> None:
        node["target"] = "torch.ops.aten.from_file.default"
        node["inputs"] = [
            {"name": "filename", "arg": {"as_string": sentinel}, "kind": 1},
            {"name": "shared", "arg": {"as_bool": True}, "kind": 1},
            {"name": "size", "arg": {"as_int": 4}, "kind": 1},
        ]

    return rewritten(source, target, {PROGRAM: first_call(called)})


def name_of_a_weight(source: Path, target: Path, sentinel: str) -> Path:
    run = f"getattr(__import__('os'), 'mkdir')({sentinel!r})"
    evil = f'conv", {run}) or getattr(self, "conv'
    return rewritten(
        source,
        target,
        {PROGRAM: text_change("conv.bias", evil), WEIGHTS: text_change("conv.bias", evil)},
    )


RUNS_WHEN_CALLED: list[tuple[Attack, str]] = [
    (call_that_makes_a_file, r"it calls aten\.from_file, which opens a file of your machine"),
    (name_of_a_weight, r"the weight's name .* is no module path, and PyTorch writes names into"),
]


@pytest.mark.parametrize(
    ("attack", "message"), RUNS_WHEN_CALLED, ids=[a.__name__ for a, _ in RUNS_WHEN_CALLED]
)
def test_a_program_that_would_run_code_when_called_is_refused(
    attack: Attack, message: str, program: Path, tmp_path: Path
) -> None:
    sentinel = tmp_path / "sentinel"
    path = attack(program, tmp_path / "evil.pt2", str(sentinel))
    for look in (open_pt2, read_network, open_runnable):
        with pytest.raises(BadModelError, match=message):
            look(path)
    assert not sentinel.exists()
    try:
        torch.export.load(path).module()(torch.zeros(2, 3, 7, 9))
    except Exception as error:  # after it ran
        print(error)
    assert sentinel.exists(), "torch does not run this: the test proves nothing"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "torch.serialization.os.mkdir",
            r"it calls 'torch\.serialization\.os\.mkdir', not a known",
        ),
        ("torch.ops.higher_order.cond", r"'torch\.ops\.higher_order\.cond', which holds a program"),
        ("torch.ops.aten.save.default", r"it calls aten\.save, which opens a file"),
        ("torch.ops.aten._fused_adam.default", r"it calls aten\._fused_adam, an internal operator"),
        ("torch.ops.mylib.op.default", r"'torch\.ops\.mylib\.op\.default', not a known one"),
        ("math.exp", r"it calls 'math\.exp', not a known one"),
        ("#ext:op", r"it calls '#ext:op', not a known one"),
        (3, r"the operator 3 has no name"),
    ],
)
def test_only_known_operators_are_let_through(
    target: Any, message: str, program: Path, tmp_path: Path
) -> None:
    change = first_call(lambda node: node.update(target=target))
    path = rewritten(program, tmp_path / "op.pt2", {PROGRAM: change})
    with pytest.raises(BadModelError, match=message):
        open_pt2(path)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"as_graph": {"name": "g", "graph": {}}}, "an argument of the kind 'as_graph'"),
        ({"as_operator": "torch.ops.aten.relu.default"}, "of the kind 'as_operator'"),
        ({"as_custom_obj": {"name": "o", "class_fqn": "c"}}, "of the kind 'as_custom_obj'"),
        ({"as_string": "/etc/passwd"}, "gives an operator the text '/etc/passwd' as its 'self'"),
        ({"as_int": 2**80}, "stands where a whole number belongs"),
        ({"as_device": {"type": "cuda", "index": 0}}, "it was exported for 'cuda'; export it on"),
    ],
)
def test_only_plain_arguments_are_let_through(
    argument: Any, message: str, program: Path, tmp_path: Path
) -> None:
    change = first_call(lambda node: node["inputs"][0].update(arg=argument))
    path = rewritten(program, tmp_path / "arg.pt2", {PROGRAM: change})
    with pytest.raises(BadModelError, match=message):
        open_pt2(path)


def test_guards_are_not_run(program: Path, tmp_path: Path) -> None:
    """Guards are Python that torch runs with every call; the program is the same without them."""
    sentinel = tmp_path / "sentinel"

    def guarded(value: Any) -> None:
        value["guards_code"] = [f"{python(str(sentinel))} or True"]

    path = rewritten(program, tmp_path / "guarded.pt2", {PROGRAM: json_change(guarded)})
    open_runnable(path).run({"x": torch.zeros(2, 3, 7, 9).numpy()})
    assert not sentinel.exists()


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ("data/aotinductor/model/a.so", r"it holds compiled code \(data/aotinductor/model/a\.so\)"),
        (
            "data/constants/custom_obj_0",
            r"it holds a script object \(data/constants/custom_obj_0\)",
        ),
        ("models/other.json", r"it holds more than one program \(models/other\.json\)"),
        ("data/surprise.bin", r"it holds 'data/surprise\.bin', which torch\.export does not write"),
        ("data/executorch/x.pte", r"it holds 'data/executorch/x\.pte', which"),
    ],
)
def test_members_that_no_program_needs_are_refused(
    member: str, message: str, program: Path, tmp_path: Path
) -> None:
    path = rewritten(program, tmp_path / "m.pt2", {member: b"{}"})
    with pytest.raises(BadModelError, match=message):
        open_pt2(path)


def change_program(**fields: Any) -> Callable[[bytes], bytes]:
    return json_change(lambda value: value.update(fields))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({PROGRAM: b"{"}, r"its program is not readable JSON"),
        ({PROGRAM: b"[]"}, r"its program lacks what torch\.export writes"),
        ({PROGRAM: b"[" * 100_000}, r"its program is not readable JSON|nested too deeply"),
        ({PROGRAM: change_program(graph_module={})}, r"its program lacks what torch\.export"),
        ({PROGRAM: change_program(schema_version={"major": 9, "minor": 0})}, r"schema is 9\.0"),
        ({PROGRAM: change_program(range_constraints={"u9999999999": {}})}, r"'u9999999999' is not"),
        ({PROGRAM: None}, r"it has no models/model\.json"),
        ({WEIGHTS: None}, r"it has no data/weights/model_weights_config\.json"),
        ({WEIGHTS: b'{"config": 3}'}, r"its list of weights is not readable"),
        ({"data/weights/weight_0": b""}, r"needs \d+ bytes, but 0 are stored"),
        ({"data/weights/weight_0": None}, r"the weight \S+ is missing \(data/weights/weight_0\)"),
        ({"byteorder": b"big"}, r"its weights are in big-endian order"),
        ({"archive_version": b"7"}, r"its archive version is a newer one"),
        ({SAMPLES: b"no zip"}, r"its example inputs are not readable"),
    ],
)
def test_damaged_programs_are_said_in_one_line(
    changes: Any, message: str, program: Path, tmp_path: Path
) -> None:
    path = rewritten(program, tmp_path / "d.pt2", changes)
    with pytest.raises(BadModelError, match=message) as refusal:
        open_pt2(path)
    assert "\n" not in str(refusal.value)


def test_a_weight_as_large_as_it_likes_is_refused(program: Path, tmp_path: Path) -> None:
    def vast(config: Any) -> None:
        config["config"]["conv.bias"]["tensor_meta"]["sizes"] = [{"as_int": 2**40}]

    path = rewritten(program, tmp_path / "vast.pt2", {WEIGHTS: json_change(vast)})
    with pytest.raises(BadModelError, match=r"conv\.bias needs 4398046511104 bytes, but 20 are"):
        open_pt2(path)


@pytest.mark.parametrize("share", [0.2, 0.7, 0.999])
def test_a_truncated_program_is_said_to_be_cut_short(
    share: float, program: Path, tmp_path: Path
) -> None:
    content = program.read_bytes()
    path = tmp_path / "cut.pt2"
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(BadModelError, match=r"cut\.pt2 is cut short or damaged"):
        read_network(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"m\.pt2 is empty"),
        (b"\x08\x07 onnx", r"m\.pt2 is not a PyTorch program: those are zip archives"),
        (b"hello", r"starts otherwise \(it is text\)"),
    ],
)
def test_what_is_no_archive_is_said(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    path.write_bytes(content)
    with pytest.raises(BadModelError, match=message):
        read_network(path)


def zip_of(path: Path, *names: str, compression: int = zipfile.ZIP_STORED, size: int = 4) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            file.writestr(name, bytes(size))
    return path


def test_archives_that_try_something_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "z.pt2"
    for names, why in (
        (["a/x", "a/x"], "the member 'a/x' is there twice"),
        (["a/x", "a/X"], "is there twice"),
        (["a/../x"], "is no plain path"),
        (["/etc/x"], "is no plain path"),
        (["a\\x"], "is no plain path|neither a program"),
    ):
        with pytest.raises(BadModelError, match=why):
            open_pt2(zip_of(path, *names))
    bomb = zip_of(path, "a/x", "a/y", compression=zipfile.ZIP_DEFLATED, size=40 << 20)
    with pytest.raises(BadModelError, match=r"its \d+ bytes would unpack to 83886080"):
        open_pt2(bomb)
    with pytest.raises(BadModelError, match="is a zip archive, but no PyTorch model"):
        open_pt2(zip_of(path, "a/word/document.xml"))


@pytest.mark.parametrize(
    ("size", "why"),
    [
        (400 << 20, "would unpack to a pickle of 419430400 bytes"),
        (1 << 10, "compressed or encrypted, as torch never does"),
    ],
)
def test_a_bomb_among_the_example_inputs_is_never_unpacked(
    program: Path, tmp_path: Path, size: int, why: str
) -> None:
    inner = io.BytesIO()
    with (
        zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as file,
        file.open("archive/data.pkl", "w") as member,
    ):
        for _ in range(max(size >> 20, 1)):
            member.write(bytes(min(size, 1 << 20)))
    path = rewritten(program, tmp_path / "bomb.pt2", {SAMPLES: inner.getvalue()})
    tracemalloc.start()
    try:
        with pytest.raises(BadModelError, match=why):
            open_pt2(path)
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
    finally:
        tracemalloc.stop()


def test_a_changed_byte_is_noticed(program: Path, tmp_path: Path) -> None:
    content = bytearray(program.read_bytes())
    place = content.find(b'{"graph_module"')
    content[place + 40] ^= 1
    path = tmp_path / "flipped.pt2"
    path.write_bytes(bytes(content))
    with pytest.raises(BadModelError, match=r"cut short or damaged \(models/model\.json"):
        open_pt2(path)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickled_module_is_refused_and_not_run(zipped: bool, tmp_path: Path) -> None:
    sentinel, path = tmp_path / "sentinel", tmp_path / "model.pt"
    torch.save(
        {"model": small(), "extra": Bomb(str(sentinel))},
        path,
        _use_new_zipfile_serialization=zipped,
    )
    for look in (read_network, open_runnable):
        with pytest.raises(
            BadModelError,
            match=r"model\.pt is a pickled Python object \(torch_archives\.Small\), which "
            r"can run any code when it is loaded, so it is not; where it was made, save the model "
            r"with torch\.export\.save",
        ):
            look(path)
    assert not sentinel.exists()


@pytest.mark.parametrize("zipped", [True, False])
def test_a_state_dict_is_said_to_be_weights_alone(zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    torch.save(small().state_dict(), path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(
        BadModelError,
        match=r"weights\.pt holds weights alone \(a state dict\), not a network; .*safetensors",
    ):
        read_network(path)


def test_any_other_pickle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.pt"
    for protocol in (2, 4, 5):
        path.write_bytes(pickle.dumps(Bomb(str(tmp_path / "sentinel")), protocol=protocol))
        with pytest.raises(BadModelError, match=r"is a pickled Python object \((posix|nt)\.mkdir"):
            read_network(path)
    assert not (tmp_path / "sentinel").exists()
