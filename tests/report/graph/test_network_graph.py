"""What is drawn: the drawings as values, and what Graphviz made of them."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from xml.etree import ElementTree

import numpy as np
import onnx
import pygraphviz
import pytest
from onnx import helper, numpy_helper

from quantscope.errors import BadConfigError, BadDataError, MissingExtraError
from quantscope.model import Edge, Layer, Network, Operand, bundled_models, read_onnx
from quantscope.report.graph.dot import MISSING, colour_of, ink_on, to_dot
from quantscope.report.graph.drawing import Drawing
from quantscope.report.graph.formats import render, to_svg
from quantscope.report.graph.network_graph import draw_network, draw_nodes, shortcuts
from quantscope.report.graph.overlay import Overlay, make_overlay, read_overlay
from quantscope.report.inspect_json import inspection
from quantscope.report.raw_nodes import read_raw_nodes

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def int8(quantized: Callable[..., Path]) -> Network:
    return read_onnx(quantized())


@pytest.fixture(scope="module")
def drawn(int8: Network) -> ElementTree.Element:
    return ElementTree.fromstring(to_svg(draw_network(int8)))


def groups(svg: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [g for g in svg.iter(f"{SVG}g") if kind in g.get("class", "").split()]


def texts(group: ElementTree.Element) -> list[str]:
    """Graphviz writes every second of two spaces as one that does not break."""
    found = (text.text or "" for text in group.iter(f"{SVG}text"))
    return [text.replace("\xa0", " ").strip() for text in found]


def node_of(svg: ElementTree.Element, name: str) -> ElementTree.Element:
    return next(g for g in groups(svg, "node") if g.get("data-name") == name)


def title_of(group: ElementTree.Element) -> str:
    title = group.find(f"{SVG}title")
    assert title is not None
    return title.text or ""


def network_of(layers: list[Layer], like: Network) -> Network:
    ports = {"inputs": (operand("x", None),), "outputs": (operand("y", layers[-1].name),)}
    return replace(like, layers=tuple(layers), tensors=(), **ports)


def operand(name: str, source: str | None) -> Operand:
    return Operand(name, "activation", "float32", (1, 8, 4, 4), source, None)


WEIGHT = Operand("w", "weight", "float32", (3, 3, 1, 1), None, None)


def layer(name: str, *sources: str | None, op_type: str = "Conv") -> Layer:
    return Layer(
        name=name,
        op_type=op_type,
        file_op_type=op_type,
        domain="",
        node_name=name,
        inputs=(
            *(operand(f"{source}.out" if source else "x", source) for source in sources),
            *((WEIGHT,) if op_type == "Conv" else ()),
        ),
        outputs=(operand(f"{name}.out", name),),
        attributes=MappingProxyType({}),
        subgraphs=(),
        macs=9 if op_type == "Conv" else 0,
        weight_bytes=0,
        live_bytes=0,
    )


def test_every_layer_is_a_node_with_type_and_shape(
    int8: Network, drawn: ElementTree.Element
) -> None:
    names = {g.get("data-name") for g in groups(drawn, "node")}
    assert names == {layer.name for layer in int8.layers} | {"input", "logits"}
    shown = texts(node_of(drawn, "stack2.conv1"))
    assert shown[:3] == ["stack2.conv1", "32×16×16", "Conv + ReLU  3×3 s2 p0,0,1,1"]
    scale = int8.tensor("stack2.conv1.weight").params.scale
    assert shown[3] == f"w int8 × 32  s {scale.min():.3g} … {scale.max():.3g}"


def test_edges_carry_type_scale_and_zero_point(int8: Network, drawn: ElementTree.Element) -> None:
    labels = [" ".join(texts(g)) for g in groups(drawn, "edge")]
    assert len(labels) == len(int8.edges) + 1
    params = int8.tensor("stack1.conv2.out").params
    assert f"int8  s {params.scale:.4g}  z {params.zero_point}" in labels
    assert not [label for label in labels if not label.startswith("int8")]


def test_quantizers_are_folded_into_the_edges(drawn: ElementTree.Element) -> None:
    assert "Linear" not in " ".join(text for g in groups(drawn, "node") for text in texts(g))


def test_titles_tell_everything_on_hovering(drawn: ElementTree.Element) -> None:
    title = title_of(node_of(drawn, "stem"))
    assert title.startswith("stem\nConv + ReLU  3×3 p1\n")
    assert "442,368 MACs" in title
    assert "folded ReLU" in title


def test_residual_paths_are_marked_from_fork_to_join(int8: Network) -> None:
    edges = int8.edges
    found = shortcuts(edges, int8.layers)
    assert {(edges[i].source, edges[i].target) for i in found} == {
        ("stem", "stack1.add"),
        ("stack1.add", "stack2.shortcut"),
        ("stack2.shortcut", "stack2.add"),
        ("stack2.add", "stack3.shortcut"),
        ("stack3.shortcut", "stack3.add"),
    }


def test_residual_paths_are_drawn_apart(drawn: ElementTree.Element) -> None:
    assert len(groups(drawn, "shortcut")) == 5


def test_a_chain_has_no_residual_path(int8: Network) -> None:
    network = network_of([layer("a", None), layer("b", "a"), layer("c", "b", "b")], int8)
    assert not shortcuts(network.edges, network.layers)


def test_float_edges_of_a_float_model_say_nothing() -> None:
    drawing = draw_network(read_onnx(bundled_models()["resnet8"]))
    assert {link.label for link in drawing.links} == {""}
    assert "float ONNX, 22 layers" in drawing.subtitle


def test_float_edges_in_a_quantized_model_say_so(quantized: Callable[..., Path]) -> None:
    from quantscope.quantize import LayerOverride

    path = quantized(overrides=(LayerOverride("stack2.conv2", left_float=True),))
    network = read_onnx(path)
    drawing = draw_network(network)
    keys = {node.name: node.key for node in drawing.nodes}
    into = [link for link in drawing.links if link.source == keys["stack2.conv2"]]
    is_float = network.layer("stack2.conv2").outputs[0].quant is None
    assert {link.is_float for link in into} == {is_float}


def test_raw_draws_every_node_of_the_file(quantized: Callable[..., Path]) -> None:
    path = quantized()
    drawing = draw_nodes(read_raw_nodes(path))
    svg = ElementTree.fromstring(to_svg(drawing))
    assert len(groups(svg, "node")) == len(onnx.load(path).graph.node) + 2
    assert len(groups(svg, "quantizer")) == 52
    shown = texts(node_of(svg, "stem.relu.out_QuantizeLinear"))
    assert any(re.fullmatch(r"scale [\d.]+, zero-point -128", text) for text in shown)


def test_a_png_is_written_that_pillow_reads(int8: Network) -> None:
    import io

    from PIL import Image

    image = Image.open(io.BytesIO(render(draw_network(int8), ".png")))
    assert image.format == "PNG"
    assert image.height > image.width > 300


def test_the_dot_file_parses(int8: Network) -> None:
    graph = pygraphviz.AGraph(string=to_dot(draw_network(int8)))
    assert len(graph.nodes()) == 17
    assert len(graph.edges()) == 19


HOSTILE = [
    'quote"d \\',
    "<script>alert(1)</script>",
    "]]></svg><img src=x onerror=alert(1)>",
    "line\nbreak\r\x00\x1b[31m",
    "&amp; &lt; %s {a|b} \\N \\G",
    "@SCRIPT@ @SVG@",
    "日本語 \u202e right to left",
    "n" * 5000,
    "</title>--><!--",
    "\ud800",
    "",
]


@pytest.fixture(scope="module")
def hostile(int8: Network) -> Drawing:
    before: list[str | None] = [None, *HOSTILE]
    layers = [
        layer(name, source, op_type=name or "Conv")
        for source, name in zip(before, HOSTILE, strict=False)
    ]
    return draw_network(network_of(layers, int8))


@pytest.mark.parametrize("suffix", [".svg", ".html", ".dot", ".png"])
def test_hostile_names_are_only_names(hostile: Drawing, suffix: str) -> None:
    content = render(hostile, suffix)
    assert content
    if suffix == ".png":
        return
    text = content.decode()
    assert "<script>alert" not in text
    assert "<img" not in text
    assert "\x1b" not in text
    assert "\x00" not in text
    if suffix == ".dot":
        assert len(pygraphviz.AGraph(string=text).nodes()) == len(HOSTILE) + 2
    if suffix == ".svg":
        svg = ElementTree.fromstring(content)
        assert len(groups(svg, "node")) == len(HOSTILE) + 2
        assert any("<script>alert(1)</script>" in title_of(g) for g in groups(svg, "node"))
        shown = [text for g in groups(svg, "node") for text in texts(g)]
        assert {"&amp; &lt; %s {a|b} \\N \\G", 'quote"d \\', "(no name)"} <= set(shown)
        assert max(len(text) for g in groups(svg, "node") for text in texts(g)) < 60
    if suffix == ".html":
        assert text.count("<script>") == 1
        assert text.count("</script>") == 1


def test_the_skip_inside_of_a_silu_is_no_residual_path() -> None:
    layers = [
        layer("conv", None),
        layer("sigmoid", "conv", op_type="Sigmoid"),
        layer("silu", "conv", "sigmoid", op_type="Mul"),
        layer("second", "silu"),
        layer("add", "silu", "second", op_type="Add"),
    ]
    edges = [Edge(o.source, each.name, o) for each in layers for o in each.activations]
    found = shortcuts(edges, layers)
    assert {(edges[place].source, edges[place].target) for place in found} == {("silu", "add")}


def test_five_hundred_layers_are_drawn(int8: Network) -> None:
    layers: list[Layer] = []
    before = None
    for block in range(125):
        first, second, third, join = (f"block{block}.{part}" for part in ("a", "b", "c", "add"))
        layers += [layer(first, before), layer(second, first), layer(third, second)]
        layers.append(layer(join, before, third, op_type="Add"))
        before = join
    svg = ElementTree.fromstring(to_svg(draw_network(network_of(layers, int8))))
    assert len(groups(svg, "node")) == 502
    assert len(groups(svg, "shortcut")) == 125


def test_the_page_needs_nothing_from_elsewhere(int8: Network) -> None:
    page = render(draw_network(int8), ".html").decode()
    assert not re.findall(r"(?:src|href)\s*=|url\(|@import|fetch\(|<link", page)
    assert "default-src 'none'" in page
    assert "<!DOCTYPE svg" not in page
    assert page.count("<svg") == 1
    assert 'data-name="stack2.conv1"' in page


def test_the_page_allows_its_own_script_alone(int8: Network) -> None:
    import hashlib
    from base64 import b64encode

    page = render(draw_network(int8), ".html").decode()
    script = page.split("<script>")[1].split("</script>")[0]
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page


def test_layers_are_coloured_by_a_metric(int8: Network) -> None:
    overlay = Overlay("sqnr_db", "dB", {"stem": 40.0, "head": 20.0, "pool": None})
    drawing = draw_network(int8, overlay=overlay)
    assert drawing.legend is not None
    assert (drawing.legend.low, drawing.legend.high, drawing.legend.missing) == (20, 40, 13)
    svg = ElementTree.fromstring(to_svg(drawing))
    fills = {
        name: next(node_of(svg, name).iter(f"{SVG}path")).get("fill")
        for name in ("stem", "head", "pool", "flatten")
    }
    assert fills["stem"] == colour_of(40, drawing.legend) == "#fde725"
    assert fills["head"] == colour_of(20, drawing.legend) == "#440154"
    assert fills["pool"] == fills["flatten"] == MISSING
    assert "sqnr_db 40 dB" in texts(node_of(svg, "stem"))
    assert "no value" in texts(node_of(svg, "pool"))
    heading = " ".join(text.text or "" for text in svg.iter(f"{SVG}text"))
    assert "20 dB" in heading
    assert "no value (13)" in heading


def test_a_single_value_has_a_colour(int8: Network) -> None:
    drawing = draw_network(int8, overlay=Overlay("macs", "", {"stem": 3.0}))
    assert to_svg(drawing)


@pytest.mark.parametrize(("colour", "ink"), [("#440154", "#ffffff"), ("#fde725", "#1b1f24")])
def test_ink_is_readable_on_its_ground(colour: str, ink: str) -> None:
    assert ink_on(colour) == ink


def test_an_overlay_reads_any_list_of_rows_that_name_layers(int8: Network) -> None:
    content = {"a": {"rows": [{"layer": "stem", "x_db": 1}, {"layer": "head", "x_db": None}]}}
    overlay = make_overlay(content, int8, "x_db", source="r")
    assert overlay == Overlay("x_db", "dB", {"stem": 1.0, "head": None})
    assert make_overlay(content, int8, None, source="r") == overlay


def test_of_several_rows_the_output_counts(int8: Network) -> None:
    rows = [
        {"name": "stem.weight", "layer": "stem", "sqnr_db": 1.0},
        {"name": "stem.out", "layer": "stem", "sqnr_db": 2.0},
        {"name": "stem.bias", "layer": "stem", "sqnr_db": 3.0},
        {"name": "head.weight", "sqnr_db": 4.0},
        {"name": "elsewhere", "sqnr_db": 5.0},
    ]
    overlay = make_overlay({"tensors": rows}, int8, "sqnr_db", source="r")
    assert overlay.values == {"stem": 2.0, "head": 4.0}


def test_what_inspect_prints_colours(int8: Network) -> None:
    content = json.loads(json.dumps(inspection(int8)))
    assert make_overlay(content, int8, "macs", source="r").values["head"] == 640
    assert set(make_overlay(content, int8, "ratio", source="r").values) == {
        *("stack1.add", "stack2.add", "stack3.add")
    }
    scale = make_overlay(content, int8, "params.scale", source="r").values["stem"]
    assert scale == pytest.approx(float(int8.tensor("stem.out").params.scale))


def test_nan_is_a_missing_value(int8: Network) -> None:
    content = json.loads(
        '[{"layer": "stem", "x": NaN}, {"layer": "head", "x": 1e999}, {"layer": "pool", "x": 7}]'
    )
    overlay = make_overlay(content, int8, "x", source="r")
    assert overlay.values == {"stem": None, "head": None, "pool": 7.0}


def test_an_unknown_metric_lists_the_columns(int8: Network) -> None:
    rows = [{"layer": "stem", "a": 1, "b": "text", "c": True, "d": 2.5}]
    with pytest.raises(BadConfigError, match=r"^No numbers 'z' in r; there are: a, d$"):
        make_overlay(rows, int8, "z", source="r")
    with pytest.raises(BadConfigError, match=r"^Say which column .* --metric; there are: a, d$"):
        make_overlay(rows, int8, None, source="r")


@pytest.mark.parametrize("content", [3, None, [], {}, [[1]], {"layer": "stem"}, [{"x": 1}]])
def test_a_result_without_rows_is_refused(int8: Network, content: object) -> None:
    with pytest.raises(BadDataError, match="holds no list of objects with a `layer` or a `name`"):
        make_overlay(content, int8, "x", source="r")


def test_a_result_of_another_network_is_refused(int8: Network) -> None:
    with pytest.raises(BadDataError, match=r"^r has 'x' for no layer of .*first row is 'conv'$"):
        make_overlay([{"layer": "conv", "x": 1}], int8, "x", source="r")
    with pytest.raises(BadConfigError, match="it holds no numbers"):
        make_overlay([{"layer": ["stem"], "name": "a", "x": "1"}], int8, "x", source="r")


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[" * 100_000, b""])
def test_an_overlay_that_is_not_json_is_refused(
    int8: Network, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(content)
    with pytest.raises(BadDataError, match=r"r\.json is not JSON"):
        read_overlay(path, int8, "x")
    with pytest.raises(BadDataError, match="There is no file"):
        read_overlay(tmp_path / "none.json", int8, "x")


def test_a_missing_graphviz_is_one_line(int8: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    with pytest.raises(MissingExtraError, match="pip install pygraphviz"):
        to_svg(draw_network(int8))
    assert render(draw_network(int8), ".dot")


def test_drawing_says_nothing_on_stderr(int8: Network, capfd: pytest.CaptureFixture[str]) -> None:
    render(draw_network(int8), ".png")
    assert capfd.readouterr().err == ""


def test_a_model_whose_input_is_its_output_is_drawn(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], then_branch=_branch(1), else_branch=_branch(2))],
        "g",
        [value("c", onnx.TensorProto.BOOL, [])],
        [value("y", onnx.TensorProto.FLOAT, None), value("c", onnx.TensorProto.BOOL, [])],
    )
    path = tmp_path / "if.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    svg = ElementTree.fromstring(to_svg(draw_network(read_onnx(path))))
    assert len(groups(svg, "node")) == 4


def _branch(number: float) -> onnx.GraphProto:
    constant = numpy_helper.from_array(np.array([number], np.float32))
    output = helper.make_tensor_value_info("o", onnx.TensorProto.FLOAT, [1])
    return helper.make_graph(
        [helper.make_node("Constant", [], ["o"], value=constant)], "b", [], [output]
    )
