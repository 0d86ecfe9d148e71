"""The walk to a layer's inputs and the names of rows, without any framework."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
import pytest

from quantscope.run.compare.sources import (
    Leaf,
    NoSourcesError,
    Pieces,
    find_pieces,
    region_before,
)
from quantscope.run.compare.sums import nothing_is_below, share_by_input, source_names


@dataclass(frozen=True)
class Op:
    """`kind(reads) -> makes`."""

    kind: str
    reads: tuple[str, ...]
    makes: str


@dataclass(frozen=True)
class Toy:
    nodes: tuple[Op, ...]
    inputs: tuple[str, ...] = ("x",)

    def place_of_maker(self, value: str) -> int | None:
        return next((at for at, op in enumerate(self.nodes) if op.makes == value), None)

    def is_constant(self, value: str) -> bool:
        return value.startswith("w")

    def reads(self, node: Op) -> tuple[str, ...]:
        return node.reads

    def makes(self, node: Op) -> tuple[str, ...]:
        return (node.makes,)

    def kind(self, node: Op) -> str:
        return node.kind

    def is_clip(self, node: Op) -> bool:
        return node.kind == "relu"

    def is_quantizer(self, node: Op) -> bool:
        return node.kind == "quantize"

    def check_region(self, nodes: Iterable[Op], values: Collection[str]) -> None:
        del values
        for node in nodes:
            if node.kind == "loop":
                raise NoSourcesError("loop cannot run again")


def graph(*ops: str) -> Toy:
    """From `conv x w -> y`."""
    parts = [op.split(" -> ") for op in ops]
    return Toy(tuple(Op(left.split()[0], (*left.split()[1:],), right) for left, right in parts))


def leaf(name: str) -> Leaf:
    return Leaf(tensor=name, value=f"{name}.q", float_value=name, reshaped=False)


def pieces(
    floats: Toy, quants: Toy, leaves: Iterable[str], *, does_relu: bool = False
) -> Pieces[Op]:
    by_name = {f"{name}.q": leaf(name) for name in (*leaves, "y")}
    return find_pieces(
        floats,
        quants,
        tensor="y",
        float_value="y",
        before_quantizer="before",
        leaves=by_name,
        does_relu=does_relu,
    )


def test_region_keeps_only_what_depends_on_a_leaf() -> None:
    toy = graph("shift w -> w2", "conv x w2 -> h", "relu h -> y", "relu y -> z")
    region = region_before(toy, "y", [])
    assert [node.kind for node in region.nodes] == ["conv", "relu"]
    assert region.has_constants and region.reaches_input
    assert region.depends["y"] == {"x"} and "w2" not in region.depends


def test_region_ends_at_its_stops() -> None:
    toy = graph("conv x w -> h", "relu h -> y")
    region = region_before(toy, "y", ["h"])
    assert region.leaves == {"h"}
    assert not region.reaches_input and not region.has_constants


def test_layer_without_constants_does_the_same_in_both_networks() -> None:
    found = pieces(
        graph("add p q -> s", "relu s -> y"),
        graph("add p.q q.q -> before"),
        ["p", "q"],
        does_relu=True,
    )
    assert found.same
    assert found.clip is not None and found.clip.kind == "relu"
    assert list(found.chosen()) == [(leaf("p"),), (leaf("q"),)]


def test_layer_with_weights_runs_again_on_all_inputs() -> None:
    found = pieces(graph("conv p w -> y"), graph("conv p.q w -> before"), ["p"])
    assert not found.same and found.clip is None
    assert list(found.chosen()) == [(leaf("p"),)]
    assert found.changed("y", found.inputs) == {"p.q"}


def test_more_than_two_inputs_are_quantized_one_after_the_other() -> None:
    found = pieces(
        graph("concat p q r -> y"), graph("concat p.q q.q r.q -> before"), ["p", "q", "r"]
    )
    assert [[each.tensor for each in leaves] for leaves in found.steps] == [["p"], ["p", "q"]]


@pytest.mark.parametrize(
    ("floats", "quants", "leaves", "reason"),
    [
        (
            graph("add p p -> y"),
            graph("quantize p.q -> i", "add i i -> before"),
            ["p"],
            "a quantized tensor that it depends on was not compared",
        ),
        (
            graph("conv x w -> y"),
            graph("conv p.q w -> before"),
            ["p"],
            "the float layer reads something that the quantized one does not",
        ),
        (
            graph("conv w w1 -> y"),
            graph("conv p.q w -> before"),
            ["p"],
            "the float layer does not read what p stands for",
        ),
        (
            graph("add w w1 -> y"),
            graph("add w w1 -> before"),
            [],
            "it does not depend on the model's input",
        ),
        (graph("loop p -> y"), graph("loop p.q -> before"), ["p"], "loop cannot run again"),
    ],
)
def test_why_an_error_cannot_be_taken_apart(
    floats: Toy, quants: Toy, leaves: list[str], reason: str
) -> None:
    with pytest.raises(NoSourcesError) as caught:
        pieces(floats, quants, leaves)
    assert str(caught.value) == reason


def test_two_inputs_share_what_is_inherited_by_the_difference_between_them() -> None:
    share = {"inherited": 0.5, "first_minus_second": 0.1}
    found = share_by_input(share, ["p", "q"])
    assert found == {"p": pytest.approx(0.3), "q": pytest.approx(0.2)}


def test_more_inputs_have_a_row_each() -> None:
    share = {"inherited": 0.6, "inherited:0": 0.1, "inherited:1": 0.2, "inherited:2": 0.3}
    assert share_by_input(share, ["p", "q", "r"]) == {"p": 0.1, "q": 0.2, "r": 0.3}
    assert {"inherited:0", "inherited:2"} < set(source_names(3))


@pytest.mark.parametrize(("low", "never"), [(-1.0, True), (0.0, True), (0.1, False)])
def test_only_behind_a_relu_nothing_is_below(low: float, never: bool) -> None:
    assert nothing_is_below(np.array(low), is_relu=True) is never
    assert not nothing_is_below(np.array(low), is_relu=False)
