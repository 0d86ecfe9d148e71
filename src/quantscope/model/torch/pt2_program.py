"""This module rebuilds a program of torch.export from what is known to be harmless.

torch's loader evaluates symbolic expressions, imports what tree specifications name, unpickles,
and writes names into Python code that it runs. So nothing of the file reaches it as it is: the
program is built anew here from names, numbers, types and known operators, and what is not among
them is refused or left out (guards, stack traces, example inputs).
"""

import json
import keyword
import re
from collections.abc import Callable, Mapping
from typing import Any

from quantscope.model.torch.pt2_operators import STRING_ARGUMENTS, RefusedError, known_operator
from quantscope.model.torch.sym_expr import is_symbol, plain_arithmetic

SCHEMA_MAJOR = 8
"""The version of torch.export's JSON that is known here; others are refused."""

# torch._export.serde.schema.ScalarType, whose numbers are part of the format.
DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32",
    8: "float64", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8e4m3fn", 30: "float8e5m2",
    31: "float8e4m3fnuz", 32: "float8e5m2fnuz", 34: "uint32", 35: "uint64",
}  # fmt: skip
STRIDED = 7  # the number of the usual layout in the same schema

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,511}")
_PATH = re.compile(r"(?!__)[A-Za-z0-9_]+(\.(?!__)[A-Za-z0-9_]+)*")
_DIALECTS = ("TRAINING", "ATEN")
_TREES = {"builtins.tuple", "builtins.list", "builtins.dict"}
_LEAF: Mapping[str, Any] = {"type": None, "context": None, "children_spec": []}


def clean_program(content: bytes) -> dict[str, Any]:
    """Rebuild the program in `models/model.json`; raise `RefusedError` if it cannot be."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"its program is not readable JSON ({error})") from None
    try:
        return _program(found)
    except RefusedError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise RefusedError(f"its program lacks what torch.export writes ({error!r})") from None
    except RecursionError:
        raise RefusedError("its program is nested too deeply") from None


def clean_payloads(content: bytes) -> dict[str, Any]:
    """Rebuild a weights or constants config: only tensors stored as plain bytes are let through."""
    try:
        entries = json.loads(content)["config"]
        cleaned = {_path(name): _payload(name, entry) for name, entry in entries.items()}
    except RefusedError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RefusedError(f"its list of weights is not readable ({error!r})") from None
    return {"config": cleaned}


def _payload(name: str, entry: Any) -> dict[str, Any]:
    if entry["use_pickle"] is not False:
        raise RefusedError(
            f"{name} is stored as a pickle or script object, which runs code when it is loaded"
        )
    path = entry["path_name"]
    if not isinstance(path, str) or not re.fullmatch(r"(weight|tensor)_\d{1,9}", path):
        raise RefusedError(f"{name} is stored in {path!r}, which is not a plain tensor")
    return {
        "path_name": path,
        "is_param": entry["is_param"] is True,
        "use_pickle": False,
        "tensor_meta": _tensor_meta(entry["tensor_meta"]),
    }


def _program(found: Any) -> dict[str, Any]:
    version = found["schema_version"]
    if version["major"] != SCHEMA_MAJOR:
        raise RefusedError(
            f"its schema is {version['major']}.{version['minor']}, and {SCHEMA_MAJOR} is the one "
            f"known here; save it again with torch 2.8 or newer"
        )
    module = found["graph_module"]
    return {
        "graph_module": {
            "graph": _graph(module["graph"]),
            "signature": _signature(module["signature"]),
            "module_call_graph": [_call(module["module_call_graph"][0])],
            "metadata": {},
            "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": _integer(found["opset_version"]["aten"])},
        "range_constraints": {
            _symbol(name): {
                "min_val": _optional_integer(limits["min_val"]),
                "max_val": _optional_integer(limits["max_val"]),
            }
            for name, limits in found["range_constraints"].items()
        },
        "schema_version": {"major": SCHEMA_MAJOR, "minor": _integer(version["minor"])},
        "verifiers": [v for v in found.get("verifiers", []) if v in _DIALECTS] or ["TRAINING"],
        "torch_version": str(found.get("torch_version", "unknown"))[:64],
        "guards_code": [],
    }


def _graph(graph: Any) -> dict[str, Any]:
    if graph.get("custom_obj_values"):
        raise RefusedError("it holds script objects, which run code when they are loaded")
    return {
        "inputs": [_argument(value) for value in graph["inputs"]],
        "outputs": [_argument(value) for value in graph["outputs"]],
        "nodes": [_node(node) for node in graph["nodes"]],
        "tensor_values": {
            _name(name): _tensor_meta(meta) for name, meta in graph["tensor_values"].items()
        },
        "is_single_tensor_return": graph.get("is_single_tensor_return") is True,
        "custom_obj_values": {},
        **{
            f"sym_{kind}_values": {
                _name(name): _symbolic(value, kind)
                for name, value in graph.get(f"sym_{kind}_values", {}).items()
            }
            for kind in ("int", "float", "bool")
        },
    }


def _node(node: Any) -> dict[str, Any]:
    metadata = node["metadata"].get("nn_module_stack")
    stack = metadata if isinstance(metadata, str) and _is_stack(metadata) else None
    return {
        "name": None if node.get("name") is None else _name(node["name"]),
        "target": known_operator(node["target"]),
        "inputs": [
            {
                "name": _name(given["name"], keywords=True),
                "arg": _argument(given["arg"], of=given["name"]),
                "kind": _optional_integer(given.get("kind")),
            }
            for given in node["inputs"]
        ],
        "outputs": [_argument(value) for value in node["outputs"]],
        "metadata": {"nn_module_stack": stack} if stack else {},
        "is_hop_single_tensor_return": None,
    }


def _is_stack(text: str) -> bool:
    """Tell whether a text is `key,module path,class` of each module around a node.

    torch takes it apart and keeps it.
    """
    parts = text.split(";")
    return len(text) < 10_000 and text.isprintable() and all(p.count(",") == 2 for p in parts)


def _argument(argument: Any, *, of: str = "") -> dict[str, Any]:
    ((kind, value),) = argument.items()
    clean = _ARGUMENTS.get(kind)
    if clean is None:
        raise RefusedError(f"it holds an argument of the kind {kind[:40]!r}, which is not plain")
    if kind == "as_string" and of not in STRING_ARGUMENTS:
        raise RefusedError(f"it gives an operator the text {str(value)[:40]!r} as its {of!r}")
    return {kind: clean(value)}


def _tensor_meta(meta: Any) -> dict[str, Any]:
    if meta["dtype"] not in DTYPES:
        raise RefusedError(f"it holds a tensor of the unknown type {meta['dtype']!r}")
    if meta["layout"] != STRIDED:
        raise RefusedError("it holds a sparse tensor")
    return {
        "dtype": _integer(meta["dtype"]),
        "sizes": [_symbolic(size, "int") for size in meta["sizes"]],
        "requires_grad": meta["requires_grad"] is True,
        "device": _device(meta["device"]),
        "strides": [_symbolic(stride, "int") for stride in meta["strides"]],
        "storage_offset": _symbolic(meta["storage_offset"], "int"),
        "layout": STRIDED,
    }


def _device(device: Any) -> dict[str, Any]:
    if device["type"] != "cpu":
        raise RefusedError(
            f"it was exported for {str(device['type'])[:20]!r}; export it on the CPU"
        )
    return {"type": "cpu", "index": None}


def _symbolic(value: Any, kind: str) -> dict[str, Any]:
    """Rebuild a number, or an expression that torch will evaluate."""
    ((form, content),) = value.items()
    if form == f"as_{kind}":
        return {form: _NUMBERS[kind](content)}
    if form != "as_expr":
        raise RefusedError(f"it holds a shape of the kind {form[:40]!r}")
    text = content["expr_str"]
    plain = plain_arithmetic(text) if isinstance(text, str) else None
    if plain is None:
        raise RefusedError(
            f"the shape {str(text)[:60]!r} is not plain arithmetic, and PyTorch evaluates shapes "
            f"as Python code"
        )
    hint = content.get("hint")
    if hint is not None:
        ((form, number),) = hint.items()
        hint = {form: _NUMBERS[form.removeprefix("as_")](number)}
    return {"as_expr": {"expr_str": plain, "hint": hint}}


def _symbol(name: str) -> str:
    if not is_symbol(name):
        raise RefusedError(f"{name[:40]!r} is not the name of a dynamic dimension")
    return name


def _signature(signature: Any) -> dict[str, Any]:
    return {
        "input_specs": [_input_spec(spec) for spec in signature["input_specs"]],
        "output_specs": [_output_spec(spec) for spec in signature["output_specs"]],
    }


def _input_spec(spec: Any) -> dict[str, Any]:
    ((kind, content),) = spec.items()
    if kind == "user_input":
        return {kind: {"arg": _argument(content["arg"])}}
    if kind not in ("parameter", "buffer", "tensor_constant"):
        raise RefusedError(
            f"it has an input of the kind {kind[:40]!r}, which is not a tensor; export it with "
            f"tensors as its only inputs"
        )
    cleaned: dict[str, Any] = {
        "arg": _tensor(content["arg"]),
        f"{kind}_name": _path(content[f"{kind}_name"]),
    }
    if kind == "buffer":
        cleaned["persistent"] = content["persistent"] is True
    return {kind: cleaned}


def _output_spec(spec: Any) -> dict[str, Any]:
    ((kind, content),) = spec.items()
    if kind != "user_output":
        raise RefusedError(
            f"it changes itself when it runs ({kind[:40]}); export the model after model.eval()"
        )
    return {kind: {"arg": _argument(content["arg"])}}


def _call(entry: Any) -> dict[str, Any]:
    signature = entry["signature"]
    if entry["fqn"] != "":
        raise RefusedError("its call graph does not start with the whole model")
    names = signature.get("forward_arg_names")
    return {
        "fqn": "",
        "signature": {
            "inputs": [],
            "outputs": [],
            "in_spec": _tree(signature["in_spec"]),
            "out_spec": _tree(signature["out_spec"]),
            "forward_arg_names": None if names is None else [_name(name) for name in names],
        },
    }


def _tree(text: str) -> str:
    """Rebuild how inputs or outputs are nested; torch imports the classes that the text names."""
    version, tree = json.loads(text)
    return json.dumps([_integer(version), _branch(tree)])


def _branch(tree: Any) -> dict[str, Any]:
    if tree == _LEAF:
        return dict(_LEAF)
    if tree["type"] not in _TREES:
        raise RefusedError(
            f"its inputs or outputs are of the class {str(tree['type'])[:60]!r}; "
            f"only tuples, lists and dicts of tensors are loaded"
        )
    context = json.loads(tree["context"])
    keys = [] if context is None else [_key(key) for key in context]
    return {
        "type": tree["type"],
        "context": json.dumps(None if context is None else keys),
        "children_spec": [_branch(child) for child in tree["children_spec"]],
    }


def _key(key: Any) -> str | int:
    if isinstance(key, str) and _IDENTIFIER.fullmatch(key):
        return key
    return _integer(key)


def _name(name: Any, *, keywords: bool = False) -> str:
    is_name = isinstance(name, str) and _IDENTIFIER.fullmatch(name)
    if not is_name or (keyword.iskeyword(name) and not keywords):
        raise RefusedError(
            f"the name {str(name)[:60]!r} is no identifier, and PyTorch writes names into code "
            f"that it runs"
        )
    return str(name)


def _path(path: Any) -> str:
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise RefusedError(
            f"the weight's name {str(path)[:60]!r} is no module path, and PyTorch writes names "
            f"into code that it runs"
        )
    return path


def _integer(value: Any) -> int:
    if type(value) is not int or abs(value) >= 2**63:  # `type`, since True is an int too
        raise RefusedError(f"{str(value)[:40]!r} stands where a whole number belongs")
    return value


def _optional_integer(value: Any) -> int | None:
    return None if value is None else _integer(value)


def _float(value: Any) -> float | str:
    if value in ("Infinity", "-Infinity", "NaN"):  # as torch writes them
        return str(value)
    if type(value) not in (int, float):
        raise RefusedError(f"{str(value)[:40]!r} stands where a number belongs")
    return float(value)


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise RefusedError(f"{str(value)[:40]!r} stands where true or false belongs")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 1000:
        raise RefusedError("a text argument is not a short text")
    return value


def _tensor(value: Any) -> dict[str, str]:
    return {"name": _name(value["name"])}


def _named_or(kind: str) -> Callable[[Any], dict[str, Any]]:
    def clean(value: Any) -> dict[str, Any]:
        ((form, content),) = value.items()
        cleaners = {"as_name": _name, f"as_{kind}": _NUMBERS[kind]}
        return {form: cleaners[form](content)}

    return clean


def _optional_tensor(value: Any) -> dict[str, Any]:
    ((form, content),) = value.items()
    cleaners: Mapping[str, Callable[[Any], Any]] = {"as_none": _bool, "as_tensor": _tensor}
    return {form: cleaners[form](content)}


def _each(clean: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    return lambda values: [clean(value) for value in values]


_NUMBERS: Mapping[str, Callable[[Any], Any]] = {"int": _integer, "float": _float, "bool": _bool}
_ARGUMENTS: Mapping[str, Callable[[Any], Any]] = {
    "as_none": _bool,
    "as_tensor": _tensor,
    "as_tensors": _each(_tensor),
    "as_optional_tensors": _each(_optional_tensor),
    "as_optional_tensor": _optional_tensor,
    "as_int": _integer,
    "as_ints": _each(_integer),
    "as_float": _float,
    "as_floats": _each(_float),
    "as_bool": _bool,
    "as_bools": _each(_bool),
    "as_string": _text,
    "as_scalar_type": _integer,
    "as_memory_format": _integer,
    "as_layout": _integer,
    "as_device": _device,
    **{f"as_sym_{kind}": _named_or(kind) for kind in _NUMBERS},
    **{f"as_sym_{kind}s": _each(_named_or(kind)) for kind in _NUMBERS},
}
