"""An edited model as a file: valid, with its provenance, and never over its original."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from quantscope.edit import Editor, Off, SetScale
from quantscope.edit.edits_json import edit_from_dict
from quantscope.errors import QuantscopeError
from quantscope.model import bundled_models
from quantscope.model.float_original import PROVENANCE_KEY

Array = np.ndarray[Any, Any]
EDITS = (SetScale("stem.out", 0.3), Off("stack2.conv1"))


def provenance(proto: onnx.ModelProto) -> dict[str, Any]:
    (text,) = (entry.value for entry in proto.metadata_props if entry.key == PROVENANCE_KEY)
    return dict(json.loads(text))


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_a_saved_model_is_valid_and_runs_in_a_plain_session(
    form: str, quantized: Callable[..., Path], tmp_path: Path, pixels: Array, scores: Any
) -> None:
    editor = Editor(quantized(format=form))
    applied = editor.apply(EDITS)
    path = tmp_path / "edited.onnx"
    digest = applied.save(path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    onnx.checker.check_model(str(path), full_check=True)
    base = onnx.load(editor.model.path)
    saved = onnx.load(path)
    assert (saved.ir_version, saved.opset_import) == (base.ir_version, base.opset_import)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = session.run(None, {"input": pixels})[0]
    assert np.array_equal(found, scores(applied.proto, pixels, "runtime"))


def test_the_metadata_says_what_the_model_was_made_from(int8: Editor, tmp_path: Path) -> None:
    facts = provenance(int8.apply(EDITS).proto)
    before = provenance(onnx.load(int8.model.path))
    made = facts.pop("edited")
    assert facts == before
    assert made["base_digest"] == int8.model.digest
    assert tuple(edit_from_dict(edit) for edit in made["edits"]) == EDITS
    assert made["versions"]["onnx"] == onnx.__version__


def test_an_edited_model_knows_its_float_model_and_can_be_edited_again(
    int8: Editor, tmp_path: Path
) -> None:
    path = tmp_path / "once.onnx"
    int8.apply([SetScale("stem.out", 0.3)]).save(path)
    again = Editor(path)
    assert again.float_path == bundled_models()["resnet8"]
    assert again.pairing is not None and again.pairing.unpaired == ()
    made = provenance(again.apply([Off("head")]).proto)["edited"]
    assert made["base_digest"] == again.model.digest
    assert made["earlier"]["base_digest"] == int8.model.digest
    both = int8.apply([SetScale("stem.out", 0.3), Off("head")]).proto
    assert again.apply([Off("head")]).proto.graph == both.graph


def test_a_lifted_model_says_so(quantized: Callable[..., Path]) -> None:
    editor = Editor(quantized(format="qoperator"))
    applied = editor.apply([])
    assert applied.lifted and not Editor("resnet8-int8").apply([]).lifted
    assert applied.notes == (
        "The file is QOperator; it was stated as QDQ first, and edits are made there",
    )
    assert provenance(applied.proto)["edited"]["lifted_from"] == "qoperator"
    assert {n.op_type for n in applied.proto.graph.node} >= {"Conv", "QuantizeLinear"}


def test_a_lifted_model_has_the_names_of_its_file(quantized: Callable[..., Path]) -> None:
    editor = Editor(quantized(format="qoperator"))
    for tensor in editor.network.tensors:
        if tensor.role != "bias":
            changes = editor.apply([SetScale(tensor.name, factor=2.0)]).changes
            assert tensor.name in {change.tensor for change in changes}


def test_the_models_that_it_was_made_from_are_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "mine.onnx"
    path.write_bytes(bundled_models()["resnet8-int8"].read_bytes())
    link = tmp_path / "link.onnx"
    link.hardlink_to(path)
    applied = Editor(path).apply(EDITS)
    for target in (path, link, bundled_models()["resnet8"]):
        before = target.read_bytes()
        with pytest.raises(QuantscopeError) as refused:
            applied.save(target)
        assert str(refused.value) == (
            f"{target} is a file that is read; give another name to write to"
        )
        assert target.read_bytes() == before


def test_a_file_that_cannot_be_written_is_said_before_anything_is(
    int8: Editor, tmp_path: Path
) -> None:
    with pytest.raises(QuantscopeError, match="There is no folder"):
        int8.apply(EDITS).save(tmp_path / "none" / "edited.onnx")
    with pytest.raises(QuantscopeError, match="is a folder"):
        int8.apply(EDITS).save(tmp_path)
