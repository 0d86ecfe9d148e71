"""The frame of written pages and the tables in them: what may run there, and that names do not."""

import base64
import hashlib
import re

import pytest

from quantscope.report.html import facts_html, list_html, table_html, text_html
from quantscope.report.page import page
from quantscope.report.table import Column, Number, Table

EVIL = "<script>alert(1)</script>\"'@SCRIPT@@BODY@"


def policy(text: str) -> str:
    (found,) = re.findall('Content-Security-Policy"\\s+content="([^"]*)"', text)
    return str(found)


def test_only_the_pages_own_script_may_run() -> None:
    script = "document.title = 'é';"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    made = page("title", "<main></main>", style="", script=script)
    assert f"script-src 'sha256-{digest}'" in policy(made)
    assert made.count("<script>") == 1


def test_what_a_page_does_not_have_its_policy_does_not_allow() -> None:
    plain = page("title", "<main></main>", style="", has_pictures=False)
    assert policy(plain) == "default-src 'none'; style-src 'unsafe-inline'"
    assert "<script" not in plain
    assert "img-src data:" in policy(page("title", "", style=""))


def test_a_title_is_text_and_names_are_no_places_of_the_frame() -> None:
    made = page(EVIL, f"<p>{text_html(EVIL)}</p>", style="", script="0")
    assert made.count("<script>") == 1 and "alert(1)</script>" not in made
    assert made.count("@SCRIPT@@BODY@") == 2


@pytest.mark.parametrize("sorts", [False, True])
def test_every_text_of_a_table_is_escaped(sorts: bool) -> None:
    columns = (
        Column(EVIL, unit=EVIL, explained=EVIL),
        Column(EVIL, right=True, unit=EVIL, explained=EVIL),
    )
    made = table_html(Table(EVIL, columns, ((EVIL, Number(EVIL, 1.0)),), (EVIL,)), sorts=sorts)
    assert "<script>" not in made and '<tr id="&lt;script' in made
    assert "<script>" not in facts_html([(EVIL, EVIL)]) + list_html([EVIL])


def test_rows_that_stand_out_are_marked_and_numbers_sort_by_their_value() -> None:
    rows = (("a", Number("1.2 k", 1234.5)), ("b", Number("–")))
    table = Table("", (Column("name"), Column("size", right=True)), rows, flagged=frozenset({1}))
    made = table_html(table, sorts=True)
    assert '<tr><td class="text">a</td><td data-v="1234.5">1.2 k</td></tr>' in made
    assert '<tr class="flagged"><td class="text">b</td><td data-v="">–</td></tr>' in made
    assert "data-v" not in table_html(table)
