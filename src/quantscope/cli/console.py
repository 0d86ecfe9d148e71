"""Print for every command: results on stdout, progress on stderr, JSON for machines."""

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table as Grid
from rich.text import Text
from rich.tree import Tree

from quantscope.progress import Progress

if TYPE_CHECKING:
    from quantscope.report import Branch, Part, Table

_STYLES = {"plain": "", "strong": "bold", "faint": "dim", "warning": "yellow"}


class _Output(Console):
    """A console that leaves it to `process.py` to end when the reader of a pipe is gone."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # `main` knows what it means; rich would call it a failure


console = _Output(highlight=False, soft_wrap=True)
messages = Console(stderr=True, highlight=False, soft_wrap=True)


def terminal_width() -> int | None:
    """Give the columns of stdout; None where it is no terminal.

    Whole lines go into a file or a pipe, to be searched.
    """
    return console.width if console.is_terminal else None


def show(
    parts: "Iterable[str | Part]", show_table: "Callable[[Table], None] | None" = None
) -> None:
    """Print what the text modules of `quantscope.report` give, each part as its kind asks for.

    A `str` is prose: on a terminal it is broken at spaces where it is too long. `show_table` is how
    tables look where they do not look as those of `inspect`.
    """
    from quantscope.report import Line, Table, fact_lines, wrap

    width = terminal_width()
    for part in parts:
        if isinstance(part, str):
            for line in wrap(part, width):
                console.print(line, markup=False)
        elif isinstance(part, Line):
            console.print(part.text, markup=False, style=_STYLES[part.tone])
        elif isinstance(part, Table):
            (show_table or _show_table)(part)
        elif isinstance(part, tuple):
            for label, text in fact_lines(part, width):
                console.print(Text.assemble((label, "dim"), text))
        else:
            _show_tree(part)


def show_grid(table: "Table", *, wraps: bool = True, indents: bool = True) -> None:
    """Let rich lay a table out; without `wraps` it cuts cells where there is no room for them."""
    grid = Grid(title=table.title or None, title_justify="left", box=None, pad_edge=indents)
    for column in table.columns:
        grid.add_column(
            Text(column.heading),
            justify="right" if column.right else "left",
            style="dim" if column.is_faint else "",
            no_wrap=not wraps,
        )
    for row in table.rows:
        grid.add_row(*map(_cell, row))
    console.print(grid)


def _cell(text: str) -> Text:
    from quantscope.report import Strong

    cell = Text(text)
    if isinstance(text, Strong):
        cell.stylize("bold not dim")
    return cell


def _show_table(table: "Table") -> None:
    if not table.rows:
        return
    console.print(f"\n{table.title}", markup=False, style="bold")
    has_headings = any(column.heading for column in table.columns)
    for place, line in enumerate(table.lines(terminal_width())):
        console.print(Text(line), style="dim" if has_headings and not place else "")


def _show_tree(branch: "Branch") -> None:
    tree = _tree(branch)
    if console.is_terminal:
        console.print(tree, soft_wrap=False)
        return
    # A tree is laid out by rich alone, which would fold it to 80 columns where there is no
    # terminal.
    wide = Console(file=io.StringIO(), width=10_000, highlight=False, color_system=None)
    with wide.capture() as captured:
        wide.print(tree)
    for line in captured.get().splitlines():
        console.print(Text(line.rstrip()))


def _tree(branch: "Branch") -> Tree:
    label = Text.assemble((branch.label, "bold"), "  ", (branch.text, "dim"))
    tree = Tree(label, guide_style="dim")
    tree.children.extend(map(_tree, branch.children))
    return tree


def emit_json(result: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout. A NaN or infinity in it is a bug, so it raises."""
    sys.stdout.write(json.dumps(result, indent=2, allow_nan=False) + "\n")


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show a bar on stderr, gone when the work is done; nothing where stderr is not a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=messages, transient=True, disable=not messages.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield show
