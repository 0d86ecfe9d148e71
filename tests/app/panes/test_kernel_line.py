"""The line of the kernels: what it says of a model is so, and its buttons do what they say."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from quantscope.app.opened import open_pair
from quantscope.app.page import Page, Setters
from quantscope.app.panes import kernel_line
from quantscope.app.panes.kernel_line import cure_edits, kernel_lines
from quantscope.app.place import begin_at
from quantscope.run import kernel_map


@pytest.fixture
def page(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """Nothing is measured by itself; which kernels run is known."""
    monkeypatch.setattr(Page, "begin", lambda _: None)
    setters = Setters(*[lambda _: None for _ in Setters.__dataclass_fields__])
    made = Page(begin_at({"model": request.param}, {}), setters)
    made.session.kernels = kernel_map(request.param)
    yield made
    made.close()


@pytest.mark.parametrize("page", ["resnet8-int8"], indirect=True)
def test_layers_that_wait_for_an_option_can_be_run_as_integers(page: Page) -> None:
    without, allowed = (kernel_map("resnet8-int8", int8_kernels=each) for each in (None, True))
    more = allowed.integer_layers - without.integer_layers
    line = kernel_lines(page.session, None)
    assert f"{more} of {without.computing_layers} layers run as float here" in line
    assert "run them as integers" in line
    page.doctor.asked({"do": "kernels", "how": "runtime-int8"})
    assert (page.bench.way.int8_kernels, page.tabs.tab) == (True, "What if")
    assert page.edits == ()


@pytest.mark.parametrize("page", ["resnet8-uint8"], indirect=True)
def test_the_cure_leaves_nothing_to_saturate(
    page: Page, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kernel_line, "saturates_8bit_products", lambda: True)  # as without VNNI
    assert kernel_lines(page.session, None) == ""  # no gap was measured
    page.doctor.asked({"do": "kernels", "how": "cure"})
    assert page.edits == cure_edits(page.session) != ()
    assert (page.bench.way.execution, page.tabs.tab) == ("runtime", "What if")
    suspects = {layer.name for layer in page.session.kernels.layers if layer.saturates}
    (cured := tmp_path / "cured.onnx").write_bytes(page.bench.applied.to_bytes())
    weights = [layer.weight for layer in open_pair(cured).network.layers if layer.name in suspects]
    assert len(weights) == len(suspects) > 0
    assert max(abs(weight.integers().astype(int)).max() for weight in weights) <= 64
    asked = []
    page.lab.quantize = asked.append
    page.doctor.asked({"do": "kernels", "how": "seven-bits"})
    (config,) = asked
    assert config.reduce_range and config.activations == "uint8"
