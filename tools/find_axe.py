"""Find axe-core, which looks at pages as screen readers do, or install it; prints where it is.

QUANTSCOPE_AXE names an axe.min.js that is elsewhere. Without npm the test that needs it is skipped.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "4.14.0"
HOME = Path(sys.prefix) / "axe"
"""It lies in the environment of the tests, so it goes with it and is never committed."""
_SCRIPT = HOME / "node_modules" / "axe-core" / "axe.min.js"


def find() -> Path | None:
    """Give the script that `QUANTSCOPE_AXE` names, else the one that was installed."""
    named = os.environ.get("QUANTSCOPE_AXE")
    script = Path(named) if named else _SCRIPT
    return script if script.is_file() else None


def why_not() -> str:
    """Say why there is none."""
    if named := os.environ.get("QUANTSCOPE_AXE"):
        return f"QUANTSCOPE_AXE names {named}, where no file is"
    if shutil.which("npm") is None:
        return "axe-core comes with npm, which was not found; install npm, then: make browser"
    return "axe-core was not found; get it with: make browser"


def install() -> str:
    """Install the pinned version with npm; a line that says why where that fails."""
    npm = shutil.which("npm")
    if npm is None or os.environ.get("QUANTSCOPE_AXE"):
        return why_not()
    HOME.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--prefix", str(HOME), "--no-save", "--no-audit", "--no-fund"]
    done = subprocess.run(
        [*command, f"axe-core@{VERSION}"], capture_output=True, text=True, check=False
    )
    last = (done.stderr.strip().splitlines() or ["npm said nothing"])[-1]
    return "" if find() else f"npm could not install axe-core {VERSION}: {last}"


def main() -> None:
    """Never fail: whoever has no npm tests everything else."""
    why = "" if find() else install()
    print(find() or f"The test with axe-core will be skipped: {why}")


if __name__ == "__main__":
    main()
