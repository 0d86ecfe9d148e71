"""Guard the files that a command writes: none that is there already, never one that it reads."""

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

from quantscope.cli.options import Force


class Writes:
    """A mark of an option as a file that the command writes, with the suffixes it may have.

    Every other option is taken for something that the command may read.
    """

    def __init__(self, *suffixes: str) -> None:
        self.suffixes = suffixes


def careful(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command refuse, before any work, what it could not or should not write.

    One that writes files gets the option --force.
    """
    signature = inspect.signature(command)
    options = {name: get_args(p.annotation) for name, p in signature.parameters.items()}
    marked = {
        name: mark for name, parts in options.items() for mark in parts if isinstance(mark, Writes)
    }

    @functools.wraps(command)
    def run(*, force: bool = False, **values: Any) -> None:
        from quantscope.files import check_outputs, note_read, one_command

        with one_command() as begun:
            outputs = {name: values[name] for name in marked if values[name] is not None}
            for name, path in outputs.items():
                _check_suffix(path, marked[name], f"--{name.replace('_', '-')}")
            others = [value for name, value in values.items() if name not in marked]
            reads = list(_files_in(others))
            check_outputs(outputs.values(), reads=reads)
            # Even --force must not replace what comes with the package.
            _check_outside(outputs.values())
            if not force:
                _check_new(outputs.values())
                # A file of that name may appear while the command works; it is refused at the end
                # too.
                begun.new = frozenset(outputs.values())
            for path in reads:
                note_read(path)
            command(**values)

    if marked:
        _add_force(run, signature)
    return run


def _add_force(run: Callable[..., None], signature: inspect.Signature) -> None:
    """Put --force before the last option, which is --json everywhere."""
    *others, last = signature.parameters.values()
    force = inspect.Parameter("force", last.kind, default=False, annotation=Force)
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*others, force, last]
    )
    run.__annotations__ = {**run.__annotations__, "force": Force}


def _files_in(values: Iterable[Any]) -> Iterator[Path]:
    """Find all files that the values of options name, bundled models among them."""
    from quantscope.model import find_model

    for value in values:
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str | Path):
                try:
                    yield find_model(one, must_exist=False)
                except (OSError, ValueError):  # a text that is no path
                    continue


def _check_suffix(path: Path, mark: Writes, option: str) -> None:
    from quantscope.errors import BadConfigError

    if path.suffix.lower() not in mark.suffixes and not path.is_dir():  # which is said otherwise
        *others, last = mark.suffixes
        known = f"{', '.join(others)} or {last}" if others else last
        raise BadConfigError(f"{option} writes {known} files; {path} has another suffix")


def _check_outside(outputs: Iterable[Path]) -> None:
    """Refuse files of the package: its models, images and recipes are read without being named."""
    from quantscope.errors import BadConfigError

    package = Path(os.path.realpath(__file__)).parents[1]
    for path in outputs:
        if Path(os.path.realpath(path)).is_relative_to(package):
            raise BadConfigError(f"{path} is part of quantscope itself; write somewhere else")


def _check_new(outputs: Iterable[Path]) -> None:
    from quantscope.errors import BadConfigError

    for path in outputs:
        if path.exists():
            raise BadConfigError(
                f"{path} is there already; give another name, or replace it with --force"
            )
