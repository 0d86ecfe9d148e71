"""The files that a command writes."""

from pathlib import Path
from typing import Annotated

import typer

Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")]


def check_new(*paths: Path | None, force: bool) -> None:
    """Raise before any long work where a file could not be written, or would be overwritten."""
    from quantscope.errors import BadConfigError
    from quantscope.files import check_output

    for path in paths:
        if path is None:
            continue
        check_output(path)
        if path.exists() and not force:
            raise BadConfigError(
                f"{path} is there already; give another name, or replace it with --force"
            )
