"""Where axe-core is, which looks at pages as screen readers do."""

import os
from pathlib import Path

_PLACES = ("node_modules/axe-core/axe.min.js", "node_modules/axe-core/axe.js")


def find() -> Path | None:
    """The script that `QUANTSCOPE_AXE` names, else that of `npm install axe-core` here."""
    if named := os.environ.get("QUANTSCOPE_AXE"):
        return Path(named)
    root = Path(__file__).parents[2]
    return next((path for name in _PLACES if (path := root / name).is_file()), None)
