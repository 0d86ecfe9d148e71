"""Fill the numbers into docs/quantization, from docs/templates and the bundled models.

    python tools/render_docs.py           writes docs/quantization/*.md
    python tools/render_docs.py --check   says which of them are not what would be written

A field is {{name}} or {{name:format}}, the format as Python's format() takes it. Edit the
templates, never the rendered files.
"""

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from doc_numbers import Value, all_fields
from quantscope.files import write_whole

FOLDER = Path(__file__).parent.parent / "docs" / "quantization"
FIELD = re.compile(r"\{\{([a-z0-9_.]+)(?::([^{}]*))?\}\}")
NOTE = "<!-- Made by tools/render_docs.py from docs/templates/{name}; edit that file. -->\n\n"


def templates() -> list[Path]:
    return sorted((FOLDER.parent / "templates").glob("*.md.in"))


def used_fields(text: str) -> set[str]:
    return {match[1] for match in FIELD.finditer(text)}


def render(template: Path, fields: Mapping[str, Value]) -> str:
    """Fill a template; a KeyError names a field that nothing computes."""
    text = template.read_text(encoding="utf-8")
    filled = FIELD.sub(lambda match: format(fields[match[1]], match[2] or ""), text)
    return NOTE.format(name=template.name) + filled


def rendered() -> dict[Path, str]:
    """Render what each document should hold."""
    fields = all_fields()
    return {FOLDER / template.stem: render(template, fields) for template in templates()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = []
    for path, text in rendered().items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.name)
        if not check:
            write_whole(path, text.encode())
    if stale:
        print(f"{'not up to date' if check else 'written'}: {', '.join(stale)}")
    sys.exit(1 if stale and check else 0)


if __name__ == "__main__":
    main()
