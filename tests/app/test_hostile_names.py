"""A model whose every name is an attack: in all tabs and all reports it is only names."""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import onnx
import pytest
from in_process import run
from playwright.sync_api import Page, expect

from quantscope.app.place import TABS
from quantscope.model import bundled_models

OpenPage = Callable[..., Page]
ATTACK = '<img src=x onerror="window.ran=1"><script>window.ran=1</script>[a](javascript:ran=1)'
RAN = '[onerror], img[src="x"], a[href^="javascript"]'


def hostile(name: str) -> str:
    return f"{name}{ATTACK}" if name else ""


def renamed(source: Path, target: Path) -> Path:
    """The model with the attack in every text that it holds."""
    proto = onnx.load(source)
    graph = proto.graph
    proto.producer_name, proto.doc_string, graph.name = ATTACK, ATTACK, ATTACK
    for entry in proto.metadata_props:
        entry.value = entry.value.replace("resnet8", ATTACK.replace('"', '\\"'))
    proto.metadata_props.add(key=ATTACK, value=ATTACK)
    for one in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
        one.name = hostile(one.name)
    for node in graph.node:
        node.name, node.doc_string = hostile(node.name), ATTACK
        for names in (node.input, node.output):
            names[:] = [hostile(name) for name in names]
    onnx.save(proto, target)
    return target


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A pair of models and images, in files whose names are attacks too."""
    folder = tmp_path_factory.mktemp("hostile")
    name = ATTACK.replace("/", "")
    rng = np.random.default_rng(0)
    data = folder / f"{name}.npz"
    np.savez(
        data,
        images=rng.uniform(0, 255, (20, 3, 32, 32)).astype(np.float32),
        labels=np.arange(20) % 10,
        class_names=[f"{number}{ATTACK}" for number in range(10)],
    )
    models = bundled_models()
    return {
        "model": renamed(models["resnet8-int8"], folder / f"{name}.onnx"),
        "float": renamed(models["resnet8"], folder / f"float{name}.onnx"),
        "data": data,
    }


def nothing_ran(page: Page) -> None:
    assert page.locator(RAN).count() == 0
    assert page.evaluate("window.ran ?? null") is None


def test_in_every_tab_they_are_only_names(
    playground: str, open_page: OpenPage, files: dict[str, Path]
) -> None:
    page = open_page(f"{playground}/?{urlencode(files)}")
    expect(page.get_by_test_id("image-count")).to_have_text("20")
    expect(page.get_by_role("heading", name="<img src=x").first).to_be_visible()
    for tab in TABS:
        page.get_by_test_id(f"tab-{tab}").click()
        expect(page.get_by_test_id(f"tab-{tab}")).to_have_attribute("aria-selected", "true")
        expect(page.locator('.qs-gallery .card[data-drawn="false"]')).to_have_count(0)
        expect(page.get_by_text("mistake in quantscope")).to_have_count(0)
        nothing_ran(page)


def test_in_every_report_they_are_only_names(
    open_page: OpenPage, files: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "p.toml").write_text("[[config]]\ncalibration_images = 4\n")
    model, floats, data = files["model"], files["float"], ("--data", files["data"])
    reports = {
        tmp_path / "c.html": ("compare", model, "--float", floats, *data, "--html"),
        tmp_path / "g.html": ("graph", model, "-o"),
        tmp_path / "raw.html": ("graph", model, "--raw", "-o"),
        tmp_path / "s": (
            "study",
            tmp_path / "p.toml",
            "--model",
            floats,
            *data,
            "--workers",
            1,
            "--out",
        ),
    }
    for path, words in reports.items():
        done = run(*words, path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "\x1b" not in done.stdout
        page = open_page((path / "report.html" if path.is_dir() else path).as_uri())
        expect(page.get_by_text("<img src=x").first).to_be_attached()
        nothing_ran(page)
    text = (tmp_path / "s" / "report.md").read_text()
    assert "<img" in text
    assert not re.search(r"(?<!\\)(<img|<script|\]\(javascript)", text)
