"""Show the images that are there as a table and lines."""

from collections.abc import Iterator

from quantscope.data import DataInfo, Samples
from quantscope.report.table import Column, Line, Table


def data_table(found: DataInfo) -> Table:
    """Make a table of the sets: size, images a class, and the digest's first 12 digits."""
    rows = []
    for entry in (found.sample, found.calibration_pool, *found.full):
        counts = sorted(set(entry.class_counts.values()))
        each = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
        size = f"{entry.stored_bytes / 1e6:.1f}"
        rows.append((entry.name, f"{entry.images:,}", each, size, entry.digest[:12]))
    return Table(
        "",
        (
            Column("set"),
            Column("images", right=True),
            Column("a class"),
            Column("MB", right=True),
            Column("sha256"),
        ),
        tuple(rows),
    )


def calibration_lines(chosen: Samples) -> Iterator[Line]:
    """Name a calibration set, and say how many of its images are of each class."""
    yield Line()
    yield Line(f"Calibration set: {chosen.name}")
    for name, count in chosen.class_counts().items():
        yield Line(f"  {name:<12}{count:>7,}")
