"""A comparison's page: what it says, that it needs nothing else, and that names cannot break it."""

import base64
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from figure_values import ADD, CONV, HEAD, INPUT, WEIGHT, comparison, evaluation

from quantscope.model import Network, find_model, load_onnx, read_onnx
from quantscope.report.compare.html import comparison_html
from quantscope.report.compare.tables import (
    comparison_tables,
    match_tensors,
    number,
    side_by_side_key,
    side_by_side_table,
)
from quantscope.report.html import table_html
from quantscope.report.table import Column, Number, Table
from quantscope.run.compare.results import ErrorSources, TensorComparison
from quantscope.run.evaluate import compare_evaluations

EVIL = "<img src=x onerror=alert(1)>\"'@SCRIPT@"
ALONE = replace(CONV, clipped_low_fraction=0.0, clipped_high_fraction=0.02)
ACCURACY = compare_evaluations(evaluation([0, 1, 1, 2, 2, 2]), evaluation([0, 0, 1, 1, 2, 0]))


class Page(HTMLParser):
    """Elements with their attributes, and all visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "source", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.elements if name == tag)


@pytest.fixture(scope="module")
def whole() -> str:
    found = comparison(tensors=(INPUT, WEIGHT, ALONE, ADD, HEAD))
    return comparison_html(found, accuracy=ACCURACY)


def test_it_is_well_formed_and_begins_with_the_sentences_and_ends_with_the_provenance(
    whole: str,
) -> None:
    page = Page(whole)
    assert page.open == []
    headings = re.findall("<h2[^>]*>([^<]*)", whole)
    assert headings == [
        "What stands out", "Along the network", "Activations", "Weights and biases", "Classes",
        "Not compared", "How to read this", "Made with",
    ]  # fmt: skip
    assert "net.onnx against float.onnx" in page.text
    assert "conv.out : 2.00% of its float values are clipped at the high end" in page.text
    assert "pool.out: cannot be seen" in page.text
    for fact in ("a" * 64, "b" * 64, "c" * 64, "some CPU", "1.31", "reference"):
        assert fact in page.text[page.text.index("Made with") :]


def test_contents_lead_to_every_heading(whole: str) -> None:
    contents = whole[whole.index("<nav>") : whole.index("</nav>")]
    links = re.findall('<a href="#([^"]*)">([^<]*)', contents)
    assert links and links == re.findall('<h2 id="([^"]*)">([^<]*)', whole)


def test_headline_numbers_are_the_comparisons(whole: str) -> None:
    text = Page(whole).text
    assert "99.00 %" in text
    assert "10 changed: 3 now right, 5 now wrong" in text
    assert "0.001 nats" in text
    assert "83.33 → 66.67 %" in text
    assert re.search(r"−16.67 points \[.*\] at 95 %", text)
    assert text.index("−16.67 points") < text.rindex("What stands out")


def test_each_of_two_models_has_its_accuracy() -> None:
    one, two = comparison(tensors=(CONV,)), comparison(model="two.onnx", tensors=(CONV,))
    better = compare_evaluations(evaluation([0, 0, 1, 1, 2, 2]), evaluation([0, 0, 1, 1, 2, 0]))
    page = comparison_html(one, accuracy=ACCURACY, other=two, other_accuracy=better)
    text = Page(page).text
    assert re.search(r"net\.onnx accuracy, float → quantized 83\.33 → 66\.67 %", text)
    assert re.search(r"two\.onnx accuracy, float → quantized 83\.33 → 100\.00 %", text)
    assert page.rindex('<dl class="numbers">') < page.index('<h2 id="part-0">Nothing stands out')


def test_more_than_eight_findings_are_folded_but_there() -> None:
    def tensors(count: int) -> tuple[TensorComparison, ...]:
        return tuple(replace(ALONE, name=f"conv{place}.out") for place in range(count))

    assert "more</summary>" not in comparison_html(comparison(tensors=tensors(8)))
    page = comparison_html(comparison(tensors=tensors(11)))
    assert "<details><summary>3 more</summary>" in page
    assert len(re.findall('<li><a href="#tensor-', page)) == 11
    assert Page(page).open == []


def test_a_figure_has_one_caption_its_own(whole: str) -> None:
    assert "<figcaption" not in whole
    assert all(image["alt"] for image in Page(whole).all("img"))


def test_nothing_is_fetched_and_only_its_own_script_may_run(whole: str) -> None:
    page = Page(whole)
    links = [v for _, a in page.elements for k, v in a.items() if k in ("src", "srcset", "href")]
    assert links and all(v and (v.startswith("data:image/svg+xml") or v[0] == "#") for v in links)
    policy = next(a["content"] for a in page.all("meta") if "http-equiv" in a)
    assert policy is not None and "default-src 'none'" in policy and "script-src 'sha256-" in policy
    assert "url(" not in whole and "@import" not in whole
    assert not any(k.startswith("on") for _, a in page.elements for k in a)


def test_every_figure_is_an_svg_for_light_and_one_for_dark(whole: str) -> None:
    page = Page(whole)
    images, sources = list(page.all("img")), list(page.all("source"))
    assert len(images) == len(sources) == 5
    for image, source in zip(images, sources, strict=True):
        assert image["alt"] and image["width"] and image["height"]
        assert source["media"] == "(prefers-color-scheme: dark)"
        pair = [str(link).partition("base64,")[2] for link in (image["src"], source["srcset"])]
        light, dark = (base64.b64decode(data) for data in pair)
        assert light != dark
        for svg in (light, dark):
            assert ElementTree.fromstring(svg).tag.endswith("svg")


def test_sentences_lead_to_their_rows_which_are_marked(whole: str) -> None:
    (anchor,) = re.findall('<li><a href="#([^"]*)">conv.out', whole)
    assert re.search(f'<tr id="{anchor}" class="flagged"><td class="text">conv.out', whole)


def test_names_of_models_and_tensors_cannot_break_out() -> None:
    evil = replace(ALONE, name=EVIL, layer=EVIL, sources=None, no_sources=EVIL)
    found = comparison(
        model=EVIL, float_model=EVIL, data=EVIL, tensors=(evil,), provenance={EVIL: EVIL}
    )
    text = comparison_html(found)
    page = Page(text)
    assert page.open == []
    assert "<img src=x" not in text
    assert len(list(page.all("script"))) == 1
    assert EVIL in page.text


def test_a_quiet_comparison_says_that_nothing_stands_out_and_needs_no_more_than_itself() -> None:
    text = Page(comparison_html(comparison(tensors=(INPUT, CONV)))).text
    assert "Nothing stands out" in text
    assert "Channels of the tensor with the lowest SQNR" in text
    assert "Scales" not in text


@pytest.fixture(scope="module")
def network() -> Network:
    return read_onnx(load_onnx(find_model("resnet8-int8")))


def test_two_models_stand_side_by_side_with_their_parameters(network: Network) -> None:
    stem = replace(CONV, name="stem.out", float_name="relu")
    one = comparison(tensors=(stem,))
    two = comparison(model="two.onnx", tensors=(replace(stem, sqnr_db=30.0),))
    table = side_by_side_table((network, None), match_tensors(one, two))
    found = Page(table_html(table, sorts=True)).text
    assert side_by_side_key((one, two), 1) == "A is net.onnx; B is two.onnx"
    other = comparison(model="three.onnx", tensors=(replace(stem, name="s.out"), ADD))
    text = Page(comparison_html(one, other=other)).text
    assert "B is three.onnx, 1 of its tensors without a counterpart." in text
    elsewhere = replace(other, float_digest="d" * 64)
    text = Page(comparison_html(one, other=elsewhere)).text
    assert "A is net.onnx, 1 of its tensors without" in text
    assert "stem.out 34.5 30.0 −4.5 38.0 38.0 0.500 0.500 int8 0.070202, −128" in found


def test_the_second_model_has_its_own_float_model_and_links_to_no_row_of_the_first() -> None:
    one = comparison(tensors=(CONV,))
    bad = replace(CONV, name="other.out", clipped_high_fraction=0.5)
    two = replace(
        comparison(model="two.pt2", tensors=(ADD, bad)), float_model="f.pt2", float_digest="e" * 64
    )
    whole = comparison_html(one, other=two)
    text = Page(whole).text
    assert "net.onnx and two.pt2 against float.onnx and f.pt2" in text
    assert f"second float model f.pt2 sha256 {'e' * 64}" in text
    assert "<li>other.out: " in whole
    rows = re.findall('<tr id="([^"]*)"', whole)
    assert all(link in rows for link in re.findall('<li><a href="#([^"]*)', whole))


def test_tables_give_exact_dashes_and_the_kernel_only_where_there_is_one() -> None:
    runtime = replace(CONV, sources=ErrorSources(0.1, 0.0, 0.0, -0.0001, 0.9, {}))
    plain, with_kernel = (
        "".join(
            table_html(table, sorts=True)
            for table in comparison_tables(comparison(tensors=(INPUT, tensor)))
        )
        for tensor in (CONV, runtime)
    )
    assert "kernel" not in plain and "kernel" in with_kernel
    assert '<td data-v="">exact</td>' in plain
    assert '<td data-v="90">90.0</td>' in with_kernel
    assert '<td data-v="-0.01">0.0</td>' in with_kernel


def test_a_column_without_a_number_is_left_out() -> None:
    columns = (Column("name"), Column("some", right=True), Column("none", right=True))
    rows = (("a", Number("1", 1.0), Number("–")), ("b", Number("–"), Number("–")))
    found = Table("", columns, rows)
    made = table_html(found, sorts=True)
    assert "some" in made and "none</button>" not in made
    assert "<th" in made and "none</th>" in table_html(found)


def test_numbers_have_a_true_minus_and_no_sign_before_zero() -> None:
    assert number(-1.25, ".1f") == "−1.2"
    assert number(-0.01, ".1f") == "0.0"
    assert number(None, ".1f") == "–"
    assert number(3.0, ".1f", " dB") == "3.0 dB"
