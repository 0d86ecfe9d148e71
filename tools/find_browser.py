"""Find a Chromium for the playground's tests, or install one; prints where it is.

QUANTSCOPE_CHROMIUM names one that is in no usual place.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")


def find() -> Path | None:
    return next((path for path in _candidates() if path.exists()), None)


def _candidates() -> Iterator[Path]:
    if named := os.environ.get("QUANTSCOPE_CHROMIUM"):
        yield Path(named)
    yield from (Path(found) for name in NAMES if (found := shutil.which(name)))
    yield MAC
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield Path(playwright.chromium.executable_path)


def install() -> None:
    """Install Playwright's own build, or the distribution's package where that is allowed."""
    steps = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    if shutil.which("apt-get") and os.geteuid() == 0:
        steps.insert(0, ["sh", "-c", "apt-get update && apt-get install -y chromium"])
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode == 0 and find():
            return


def main() -> None:
    found = find()
    if found is None:
        print("No Chromium was found; installing one for the tests.", file=sys.stderr)
        install()
        found = find()
    if found is None:
        sys.exit(
            "No Chromium for the playground's tests: none was found and none could be installed. "
            "Install one, or name it in QUANTSCOPE_CHROMIUM."
        )
    print(found)


if __name__ == "__main__":
    main()
