"""What every command shares: results on stdout, progress on stderr, JSON for machines."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from quantscope.progress import Progress


class _Output(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # `main` knows what it means; rich would call it a failure


console = _Output(highlight=False, soft_wrap=True)
messages = Console(stderr=True, highlight=False, soft_wrap=True)


def terminal_width() -> int | None:
    """None where stdout is no terminal, and nothing needs to fit."""
    return console.width if console.is_terminal else None


def show(lines: Iterable[str]) -> None:
    """On a terminal, lines that are too long are broken at spaces."""
    from quantscope.report.table import wrapped

    width = terminal_width()
    for line in lines:
        for part in wrapped(line, width):
            console.print(part, markup=False)


def emit_json(result: Mapping[str, Any]) -> None:
    """One JSON object on stdout. A NaN or infinity in it is a bug, so it raises."""
    sys.stdout.write(json.dumps(result, indent=2, allow_nan=False) + "\n")


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar on stderr, gone when the work is done; nothing where stderr is not a terminal."""
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
