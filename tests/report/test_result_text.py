"""Results as lines and tables: the values, without a terminal."""

from dataclasses import replace

import numpy as np
import pytest

from quantscope.cli.console import console, show, show_grid
from quantscope.data import load_sample
from quantscope.report import Line, Strong, Table, evaluation_view, layer_view, network_view
from quantscope.report.evaluate_text import confusion_table
from quantscope.run.evaluate import Evaluation, compare_evaluations, evaluate


@pytest.fixture(scope="module")
def found() -> Evaluation:
    return evaluate("resnet8-int8", load_sample().take(20))


def test_an_evaluation_is_its_headline_its_digest_and_its_classes(found: Evaluation) -> None:
    name, accuracy, digest, table = evaluation_view([found])
    assert name == Line("resnet8-int8.onnx  runtime execution", "strong")
    assert isinstance(accuracy, Line) and accuracy.text.startswith(f"accuracy {found.accuracy:.2%}")
    assert digest == Line(f"sha256 {found.digest}", "faint")
    assert isinstance(table, Table) and len(table.rows) == len(found.class_names)


def test_images_in_the_right_class_stand_out(found: Evaluation) -> None:
    for place, row in enumerate(confusion_table(found).rows):
        assert [isinstance(cell, Strong) for cell in row[2:]] == list(np.arange(10) == place)


def test_a_delta_follows_its_evaluation(found: Evaluation) -> None:
    lines = [part.text for part in evaluation_view([found], [compare_evaluations(found, found)])
             if isinstance(part, Line)]  # fmt: skip
    assert lines[3].startswith(f"against {found.model}, runtime execution")
    assert lines[4].startswith("by class, in points: ")
    assert lines[5] == ""


def test_names_in_a_grid_are_no_markup(found: Evaluation) -> None:
    name = "[/b]x"
    assert found.classes is not None
    classes = replace(found.classes, names=(name, *found.class_names[1:]))
    table = confusion_table(replace(found, classes=classes))
    with console.capture() as captured:
        show([Line(name)])
        show_grid(table)
    assert captured.get().count(name) == 2


def test_views_of_a_network_begin_with_its_name_and_its_facts() -> None:
    from quantscope import read_network
    from quantscope.model import find_model

    network = read_network(find_model("resnet8-int8"))
    name, facts, *tables = network_view(network)
    assert name == Line("resnet8-int8.onnx", "strong")
    assert isinstance(facts, tuple) and len(tables) == 3
    stem, *_ = layer_view(network, network.layer("stem"))
    assert stem == Line("stem", "strong")
