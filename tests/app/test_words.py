"""Every word of the page is explained, and every link leads somewhere."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from quantscope.app.metrics import metrics
from quantscope.app.opened import open_pair
from quantscope.app.panes.help import PAGES, docs_folder, show
from quantscope.app.rows import LAYER_COLUMNS, TENSOR_COLUMNS
from quantscope.app.session import Session
from quantscope.app.words import WORDS, word


def headings(page: str) -> set[str]:
    folder = docs_folder()
    assert folder is not None
    text = (folder / page).read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("key", [key for key, found in WORDS.items() if found.page])
def test_more_leads_to_a_heading(key: str) -> None:
    page, _, heading = WORDS[key].page.partition("#")
    assert page in PAGES
    assert heading in headings(page)


def test_explanations_are_one_plain_sentence_or_two() -> None:
    assert all(len(found.text) < 200 and found.text.endswith(".") for found in WORDS.values())


def test_columns_and_metrics_use_known_words() -> None:
    used = {column["word"] for column in (*LAYER_COLUMNS, *TENSOR_COLUMNS)} - {""}
    for name in ("resnet8-int8", "resnet8"):
        used |= {metric.word for metric in metrics(Session(open_pair(name)))}
    assert used <= WORDS.keys()


def test_panes_use_known_words() -> None:
    folder = Path(str(files("quantscope.app.panes")))
    for module in folder.rglob("*.py"):
        found = re.findall(r'word\("(\w+)"', module.read_text(encoding="utf-8"))
        assert set(found) <= WORDS.keys(), module.name


def test_word_escapes_what_it_shows() -> None:
    assert "<b>" not in word("scale", "<b>")


def test_help_shows_the_page_that_was_asked_for() -> None:
    assert 'id="folded-relu"' in show("02-qlinearconv.md#folded-relu").text
    assert "not installed here" in show("other.md").text
