"""Show help where it is needed: the words of the page, and docs/quantization beside them."""

import re
from functools import lru_cache
from html import escape
from pathlib import Path

import marimo as mo

from quantscope.app.words import WORDS

PAGES = {
    "01-boundary-operations.md": "Quantize and dequantize",
    "02-qlinearconv.md": "Convolutions in integers",
    "03-qlinearmatmul.md": "Matrix products and the head",
    "04-architecture.md": "The whole network",
}
_FIRST = next(iter(PAGES))


def show(topic: str) -> mo.Html:
    """Show the words and a page; `topic` is a page and a heading in it, empty for the first."""
    page = topic.partition("#")[0] or _FIRST
    return mo.Html(
        f'<div class="qs-help" data-testid="help">{_glossary()}'
        f'<nav class="qs-pages">{_links(page)}</nav>{_page(page).text}</div>'
    )


def docs_folder() -> Path | None:
    """Find docs/quantization: in the package, or beside it in the project's own folder."""
    package = Path(__file__).parents[2]
    places = (package / "docs" / "quantization", package.parents[1] / "docs" / "quantization")
    return next((place for place in places if place.is_dir()), None)


def _glossary() -> str:
    rows = sorted(WORDS.values(), key=lambda word: word.name.casefold())
    entries = "".join(
        f"<dt>{escape(word.name)}</dt><dd>{escape(word.text)}"
        + (f' <a href="{escape(word.page)}">more</a>' if word.page else "")
        + "</dd>"
        for word in rows
    )
    return (
        "<details open><summary>The words of this page</summary>"
        f'<dl class="qs-glossary">{entries}</dl></details>'
    )


def _links(current: str) -> str:
    return "".join(
        f'<a href="{page}"{" aria-current=page" if page == current else ""}>{escape(title)}</a>'
        for page, title in PAGES.items()
    )


@lru_cache(maxsize=len(PAGES))
def _page(name: str) -> mo.Html:
    """Read a page once, without its HTML comments."""
    # The name comes from the browser: nothing but the known pages is read.
    folder = docs_folder()
    if folder is None or name not in PAGES or not (folder / name).is_file():
        return mo.Html(
            f'<p class="qs-line">{escape(name)} is a page of docs/quantization in the project\'s '
            f"own folder, which is not installed here.</p>"
        )
    text = (folder / name).read_text(encoding="utf-8")
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    # What GitHub writes as a fenced block is between dollars in marimo's Markdown.
    text = re.sub(r"```math\n(.*?)\n```", r"$$\n\1\n$$", text, flags=re.DOTALL)
    # The corner of a table is no heading.
    return mo.Html(re.sub(r"<th([^>]*)></th>", r"<td\1></td>", mo.md(text).text))
