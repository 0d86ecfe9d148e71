"""A measure of a person's own: a function in a Python file, run only when it is named.

    def mean_overlap(outputs, targets):   # a batch's outputs by name, its targets or None
        return ...                        # one number a row

`mean_overlap.higher_is_better = False` says that its numbers are errors, and `.unit` what they
count in.
"""

import importlib.util
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Samples
from quantscope.errors import BadConfigError, BadDataError
from quantscope.files import is_there
from quantscope.plain_text import elide, many, printable
from quantscope.run.classes import labels_of
from quantscope.run.outputs import Outputs

ROWS_AT_ONCE = 256

Function = Callable[[dict[str, NDArray[Any]], NDArray[Any] | None], Any]


@dataclass(frozen=True)
class OwnMeasure:
    """A function that gives one number a row, by the name of its file and its own."""

    name: str
    function: Function = field(repr=False)
    unit: str = ""
    higher_is_better: bool = True
    needs_floats: bool = False

    def count(
        self, outputs: Outputs, samples: Samples, floats: Outputs | None
    ) -> NDArray[np.float64]:
        del floats
        labels = labels_of(samples)
        found = np.empty(len(samples))
        for start in range(0, len(samples), ROWS_AT_ONCE):
            rows = slice(start, min(start + ROWS_AT_ONCE, len(samples)))
            # Copies: what a function does to its arguments shall reach no other number.
            batch = {name: np.array(array[rows]) for name, array in outputs.items()}
            targets = None if labels is None else labels[rows].copy()
            found[rows] = self._call(batch, targets, rows)
        return found

    def _call(
        self, batch: dict[str, NDArray[Any]], targets: NDArray[Any] | None, rows: slice
    ) -> NDArray[np.float64]:
        count = rows.stop - rows.start
        try:
            given = np.asarray(self.function(batch, targets))
        except Exception as error:  # of any kind: the code is the person's own
            raise BadDataError(f"{self.name} raised {_in_words(error)}") from None
        if given.shape != (count,) or given.dtype.kind not in "biuf":
            raise BadDataError(
                f"{self.name} gave {given.dtype} of shape {list(given.shape)} for "
                f"{many(count, 'row')}; it must give one number a row, shape [{count}]"
            )
        values = given.astype(np.float64)
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise BadDataError(
                f"{self.name} gave {values[row]} for row {rows.start + row}; it must give a finite "
                f"number for every row"
            )
        return values


def load_measure(spec: str, *, lower_is_better: bool = False) -> OwnMeasure:
    """Load FILE.py:FUNCTION. The file's code is run, as by Python itself."""
    file, _, name = spec.rpartition(":")
    path = Path(file)
    if path.suffix != ".py" or not name.isidentifier():
        raise BadConfigError(f"A measure of your own is named FILE.py:FUNCTION, not {spec!r}")
    if not is_there(path):
        raise BadConfigError(f"There is no file {file} with a measure in it")
    module = _load(path)
    function = getattr(module, name, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if _is_own(value, module)]
        raise BadConfigError(
            f"{file} has no function {name!r}; it has {', '.join(known) or 'none'}"
        )
    stated = getattr(function, "higher_is_better", None)
    return OwnMeasure(
        name=f"{path.name}:{name}",
        function=function,
        unit=str(getattr(function, "unit", "")),
        higher_is_better=not lower_is_better and (stated is None or bool(stated)),
    )


def _load(path: Path) -> ModuleType:
    found = importlib.util.spec_from_file_location(f"quantscope_measure_{path.stem}", path)
    assert found is not None and found.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except Exception as error:  # of any kind: the code is the person's own
        raise BadConfigError(f"{path.name} cannot be loaded: {_in_words(error)}") from None
    return module


def _is_own(value: Any, module: ModuleType) -> bool:
    return callable(value) and getattr(value, "__module__", None) == module.__name__


def _in_words(error: Exception) -> str:
    """Name an error and the person's line that it came from, on one line."""
    # The last frame in a file of the person's own: below it are libraries.
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)[1:]
        if not {"site-packages", "dist-packages"} & set(Path(frame.filename).parts)
        and Path(frame.filename).exists()
    ]
    place = f" (line {frames[-1].lineno} of {Path(frames[-1].filename).name})" if frames else ""
    text = elide(printable(" ".join(str(error).split())), 200)
    return f"{type(error).__name__}{f': {text}' if text else ''}{place}"
