"""The files that a command writes."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")]


def check_new(
    *paths: Path | None, force: bool, sources: Collection[str | Path | None] = ()
) -> None:
    """Raise before any long work where a file could not be written, or would be overwritten.

    `sources` are what the command reads; --force does not replace those either.
    """
    from quantscope.errors import BadConfigError
    from quantscope.files import check_output

    for path in paths:
        if path is None:
            continue
        check_output(path)
        if any(_is_same(path, source) for source in sources if source is not None):
            raise BadConfigError(f"{path} is read by this command; give another name to write to")
        if path.exists() and not force:
            raise BadConfigError(
                f"{path} is there already; give another name, or replace it with --force"
            )


def _is_same(path: Path, source: str | Path) -> bool:
    from quantscope.zoo import find_model

    found = find_model(source, must_exist=False)
    return path.exists() and found.exists() and path.samefile(found)
