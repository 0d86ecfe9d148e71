"""Give commands the options that say which rows a model is fed, and load those."""

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quantscope.cli.console import messages
from quantscope.cli.options import (
    PictureChannels,
    PictureChannelsBeside,
    PictureLayoutOption,
    PictureMean,
    PictureScale,
    PictureSize,
    PictureStd,
    RandomSeed,
    ShapeOption,
)

if TYPE_CHECKING:
    from quantscope.data import RowWishes, Samples
    from quantscope.model import Model

_OPTIONS: dict[str, Any] = {
    "shape": ShapeOption,
    "size": PictureSize,
    "mean": PictureMean,
    "std": PictureStd,
    "scale": PictureScale,
    "layout": PictureLayoutOption,
    "picture_channels": PictureChannels,
    "seed": RandomSeed,
}

_used: list[str] = []
"""The rows that the running command has used, to be said with its result."""


def takes_rows(command: Callable[..., None]) -> Callable[..., None]:
    """Put the options of rows where a command has the parameter `rows`, which they become."""
    signature = inspect.signature(command)
    options = dict(_OPTIONS)
    if "channels" in signature.parameters:
        options["picture_channels"] = PictureChannelsBeside

    @functools.wraps(command)
    def run(**values: Any) -> None:
        given = {name: values.pop(name) for name in options}
        _used.clear()
        command(**values, rows=_wishes(**given))
        # With the result, and not before a line that says why there is none.
        for line in dict.fromkeys(_used):
            messages.print(line, markup=False)

    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name != "rows":
            parameters.append(parameter)
            continue
        parameters += [
            inspect.Parameter(
                name, parameter.kind, default=0 if name == "seed" else None, annotation=option
            )
            for name, option in options.items()
        ]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
    return run


def load_samples(
    model: "Model",
    data: str | None,
    rows: "RowWishes | None" = None,
    *,
    images: int | None = None,
    unless_given: int | None = None,
    needed: int | None = None,
    evenly: bool = False,
) -> "Samples":
    """Load what --data names for a model, or what suits it, and take the first --images.

    With `evenly` they are taken as the page takes them. Where they are not given, the first
    `unless_given` are taken or all if there are fewer; without that, all. `needed` rows are enough.
    What is used is said, unless its name says it.
    """
    from quantscope.data import load, stratify, usual_data
    from quantscope.errors import BadConfigError

    spec = usual_data(model, rows) if data is None else data
    if evenly:
        if images is None:
            raise BadConfigError("--evenly says which rows; say how many with --images N")
        everything = load(spec, model=model, wishes=rows)
        everything.take(images)  # which refuses more than there are
        return _say_which(stratify(everything, images), data)
    wanted = images or needed
    if spec == "random" and wanted is not None:
        spec = f"random:{wanted}"
    first = wanted or (unless_given if spec != "random" else None)
    chosen = load(spec, model=model, first=first, wishes=rows)
    if images is not None:
        chosen = chosen.take(images)
    elif unless_given is not None:
        chosen = chosen.take(min(unless_given, len(chosen)))
    return _say_which(chosen, data)


def _say_which(chosen: "Samples", data: str | None) -> "Samples":
    """Have the command say what it was fed, unless the samples' name says it."""
    if chosen.origin:
        why = ""
        if data is None:
            why = "; give your own with --data FILE.npz or a folder of pictures"
        _used.append(f"Data: {chosen.origin}{why}")
    return chosen


def load_range_samples(
    model: "Model", spec: str | None, rows: "RowWishes | None" = None, *, count: int = 256
) -> "Samples":
    """Load what the ranges of activations are chosen by: never what a score is measured with."""
    from quantscope.data import load
    from quantscope.errors import BadConfigError
    from quantscope.quantize import PtqConfig, choose_images

    if spec in ("sample", "full"):
        raise BadConfigError(
            f"--calibration-data {spec} names test images, which must not choose ranges; leave it "
            "out for CIFAR-10's training images"
        )
    given = None if spec is None else load(spec, model=model, wishes=rows)
    config = PtqConfig(calibration_images=count if given is None else len(given))
    return choose_images(config, given, model=model.name, ports=model.inputs)


def _wishes(
    *,
    shape: list[str] | None,
    size: str | None,
    mean: str | None,
    std: str | None,
    scale: str | None,
    layout: Any,
    picture_channels: Any,
    seed: int,
) -> "RowWishes":
    """Read the options; what is wrong with one is told before any work."""
    from quantscope.data import PictureWishes, RowWishes, parse_numbers, parse_shape, parse_size
    from quantscope.errors import BadConfigError

    if seed < 0:
        raise BadConfigError(f"A seed is 0 or more, not {seed}")
    shapes = [parse_shape(text) for text in shape or ()]
    names = [name for name, _ in shapes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadConfigError(f"--shape is given twice for {twice or 'one input'}")
    numbers = {
        name: None if text is None else parse_numbers(f"--{name}", text)
        for name, text in {"mean": mean, "std": std, "scale": scale}.items()
    }
    factor = numbers.pop("scale")
    if factor is not None and len(factor) != 1:
        raise BadConfigError(f"--scale is one number for all pixels, such as 1/255, not {scale}")
    pictures = PictureWishes(
        size=None if size is None else parse_size(size),
        mean=numbers["mean"],
        std=numbers["std"],
        scale=None if factor is None else factor[0],
        layout=layout,
        channels=picture_channels,
    )
    return RowWishes(dict(shapes), pictures, seed)
