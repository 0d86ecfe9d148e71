"""What a page took is given back when it is closed."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playing import SERVED, let_in, playing
from playwright.sync_api import Browser, expect

MEGABYTES = 200


def resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.5)


@pytest.mark.slow
def test_memory_is_given_back_when_a_page_closes(browser: Browser, tmp_path: Path) -> None:
    count = int(MEGABYTES * 1e6 / (3 * 32 * 32 * 4))
    images = np.random.default_rng(0).random((count, 3, 32, 32), np.float32)
    np.savez(tmp_path / "many.npz", images=images, labels=np.arange(count) % 10)
    with playing() as address:
        pid = SERVED[address].pid
        context = let_in(browser.new_context())
        context.new_page().goto(address)  # what every page needs is loaded now
        expect(context.pages[0].get_by_test_id("image-count")).to_have_text("1,000")
        second = context.new_page()
        second.goto(f"{address}/?model=resnet8-uint8&data={tmp_path / 'many.npz'}")
        expect(second.get_by_test_id("image-count")).to_have_text("1,000")
        with_it = resident(pid)
        second.close()
        # marimo keeps the session of a page for half a minute: it may be loaded again.
        wait_for(lambda: resident(pid) < with_it - 0.9 * MEGABYTES, seconds=90)
        context.close()
