"""A page of a small network, without a browser."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from planted import Plant, convnet, convnet_weights, edited

from quantscope.app.page import Page, Setters
from quantscope.app.place import begin_at
from quantscope.edit import SetRange


@pytest.fixture
def small_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """A page of a network with a range that is too wide; nothing is measured by itself."""
    planted = Plant(tmp_path).make(
        convnet(convnet_weights()), change=edited(SetRange("add.out", 0, 100))
    )
    np.savez(tmp_path / "rows.npz", x=planted.samples.images)
    monkeypatch.setattr(Page, "begin", lambda _: None)
    setters = Setters(*[lambda _: None for _ in Setters.__dataclass_fields__])
    given = {"model": planted.quantized, "float": planted.floats, "data": tmp_path / "rows.npz"}
    made = Page(begin_at({key: str(path) for key, path in given.items()}, {}), setters)
    yield made
    made.set_edits(())
    made.close()
