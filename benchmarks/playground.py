"""Time the playground in a browser: command to usable page, and slider to changed number.

The peer is a naive notebook, whose cell rebuilds the session and runs all images at every move
(benchmarks/naive_playground.py). Both servers run at once and are measured in turn, so that their
ratio holds on a loaded machine too. An early tensor is the worst case of the page, since all of the
network follows it. Run it with: python -m benchmarks.playground
"""

import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools import find_browser
from tools.serve_play import free_port, serving

ROOT = Path(__file__).parent.parent
NAIVE = ROOT / "benchmarks" / "naive_playground.py"
LAYERS = ("stem", "stack2.conv1", "stack3.conv1")
MOVES, BLOCKS = 50, 5
STARTS = 3
SLIDER_STEP = 1 / 32
SECONDS = 300
QUIET_SECONDS = 3
"""The rest after a turn: figures that the page still draws are not to slow the other's."""

FIND = """const deep = (root, wanted) => {
  const found = root.querySelector(wanted);
  if (found) return found;
  for (const part of root.querySelectorAll("*")) {
    const inside = part.shadowRoot && deep(part.shadowRoot, wanted);
    if (inside) return inside;
  }
  return null;
};"""
CHANGED = """const changed = (began, wanted) => {
  const first = deep(document, wanted);
  const home = first.getRootNode();
  const old = first.textContent;
  return new Promise((done, failed) => {
    const look = () => {
      const now = home.querySelector(wanted)?.textContent;
      if (now && now !== old) done(performance.now() - began());
      else if (performance.now() - began() > 120000) failed(`${wanted} still says ${old}`);
      else setTimeout(look, 1);
    };
    look();
  });
};"""
# As a key does: one `input` and one `change`; factors of 2**octaves, from -5 to 5.
MOVE_OURS = f"""([octaves]) => {{ {FIND} {CHANGED}
  const slider = deep(document, '[data-testid="slider-scale"]');
  const began = performance.now();
  const answer = changed(() => began, '[data-testid="edited-accuracy"]');
  const [least, most] = [Number(slider.min), Number(slider.max)];
  slider.value = String(least + ((most - least) * (octaves + 5)) / 10);
  for (const what of ["input", "change"]) slider.dispatchEvent(new Event(what));
  return answer;
}}"""
WAIT_NAIVE = f"""() => {{ {FIND} {CHANGED}
  let began = performance.now();
  const start = () => {{ began = performance.now(); }};
  window.addEventListener("keydown", start, {{ capture: true, once: true }});
  window.naiveAnswer = changed(() => began, '[data-testid="accuracy"]');
}}"""


def run() -> None:
    browser_path = find_browser.find()
    if browser_path is None:
        print("playground: no Chromium was found; install one with: make browser")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        browser.new_page().close()  # the browser's own start is not ours
        _report_starts(browser)
        _report_moves(browser)
        browser.close()


def _report_starts(browser: Any) -> None:
    found: dict[str, list[float]] = {"ours": [], "naive": []}
    for _ in range(STARTS):
        for how, seconds in found.items():
            began = time.perf_counter()
            with _serving(how) as address:
                page = _opened(browser, address, how)
                seconds.append(time.perf_counter() - began)
                page.close()
    ours, naive = (statistics.median(found[how]) for how in ("ours", "naive"))
    print(
        f"playground: command to usable page {ours:.1f} s "
        f"({min(found['ours']):.1f} to {max(found['ours']):.1f}), "
        f"the naive notebook {naive:.1f} s: {naive / ours:.2f} times as long"
    )


def _report_moves(browser: Any) -> None:
    with _serving("ours") as our_address, _serving("naive") as naive_address:
        ours = _opened(browser, our_address, "ours")
        naive = _opened(browser, naive_address, "naive")
        _settle(ours)
        times: dict[str, list[float]] = {how: [] for how in ("naive", *LAYERS)}
        for block in range(BLOCKS):
            for layer in LAYERS:
                _select(ours, layer)
                times[layer] += [_move_ours(ours, block, n) for n in range(MOVES // BLOCKS)]
                time.sleep(QUIET_SECONDS)
            times["naive"] += [_move_naive(naive, n) for n in range(MOVES // BLOCKS)]
    naive_ms = statistics.median(times["naive"])
    print(f"playground: slider to changed number, median of {len(times['naive'])}")
    print(f"  a cell that rebuilds the session: {_spread(times['naive'])}")
    for layer in LAYERS:
        ratio = naive_ms / statistics.median(times[layer])
        print(f"  {layer}.out: {_spread(times[layer])}, {ratio:.1f} times as fast")


def _spread(milliseconds: list[float]) -> str:
    tenth = sorted(milliseconds)[int(0.9 * len(milliseconds))]
    return f"{statistics.median(milliseconds):.0f} ms (90 % below {tenth:.0f})"


def _move_ours(page: Any, block: int, number: int) -> float:
    """Move the slider and wait for the number; give milliseconds.

    No position comes twice, and every second one clips so much that the accuracy must change.
    """
    place = 1 + block * MOVES // BLOCKS // 2 + number // 2
    octaves = place * SLIDER_STEP - (5 if number % 2 == 0 else 0)
    return float(page.evaluate(MOVE_OURS, [octaves]))


def _move_naive(page: Any, number: int) -> float:
    page.bring_to_front()
    page.locator("[role=slider]").focus()
    page.evaluate(WAIT_NAIVE)
    page.keyboard.press("End" if number % 2 else "Home")
    return float(page.evaluate("() => window.naiveAnswer"))


def _settle(page: Any) -> None:
    """Wait until what is measured when a page opens is done, and turn to the sliders."""
    page.locator('[data-testid="job-start"]').first.wait_for()
    page.get_by_test_id("tab-What if").click()
    page.get_by_test_id("slider-scale").wait_for()


def _select(page: Any, layer: str) -> None:
    """Select a layer with a scale of its own and nothing else edited.

    So there is a number to change.
    """
    page.bring_to_front()
    if page.get_by_test_id("clear-edits").is_visible():
        page.get_by_test_id("clear-edits").click()
        page.get_by_test_id("what-if-edited").wait_for(state="detached")
    page.get_by_test_id("table-layers").locator(f'tr[data-layer="{layer}"]').click()
    page.get_by_test_id("tensor-name").filter(has_text=f"{layer}.out").wait_for()
    page.get_by_test_id("slider-scale").press("ArrowRight")
    page.get_by_test_id("edited-accuracy").filter(has_text="%").wait_for()
    time.sleep(QUIET_SECONDS)


def _opened(browser: Any, address: str, how: str) -> Any:
    """Open a page and wait for its first number."""
    page = browser.new_page()
    page.set_default_timeout(SECONDS * 1000)
    page.goto(address)
    number = "accuracy-float" if how == "ours" else "accuracy"
    page.get_by_test_id(number).filter(has_text="%").wait_for()
    return page


@contextmanager
def _serving(how: str) -> Iterator[str]:
    """Serve ours or the naive notebook; give the address that lets a browser in."""
    if how == "ours":
        with serving() as served:
            yield served.way_in
        return
    port = str(free_port())
    naive = ["marimo", "-y", "run", str(NAIVE), "--headless", "--no-token", "--port", port]
    server = subprocess.Popen(
        [sys.executable, "-m", *naive],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    try:
        yield _answering(f"http://127.0.0.1:{port}", server)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=SECONDS)


def _answering(address: str, server: subprocess.Popen[bytes]) -> str:
    """Wait until something answers at the address."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return address
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"nothing answered at {address}")


if __name__ == "__main__":
    run()
