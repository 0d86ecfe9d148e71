"""Run `quantscope trace`: take one value of a layer apart."""

from typing import TYPE_CHECKING, Annotated

import typer

from quantscope.cli.console import emit_json
from quantscope.cli.options import Data, FloatModel, Int8Kernels, Json, QuantizedOnnx
from quantscope.cli.outputs import careful
from quantscope.cli.rows import load_samples, takes_rows
from quantscope.errors import BadConfigError

if TYPE_CHECKING:
    from quantscope.data import RowWishes


@careful
@takes_rows
def command(
    model: QuantizedOnnx,
    layer: Annotated[str, typer.Option(help="The layer; quantscope inspect lists them.")],
    at: Annotated[str, typer.Option(help="The place in its output: C,Y,X, or C after a Gemm.")],
    image: Annotated[int, typer.Option(help="Which image of --data, from 0.")] = 0,
    float_model: FloatModel = None,
    data: Data = None,
    rows: "RowWishes | None" = None,
    int8_kernels: Int8Kernels = None,
    terms: Annotated[int, typer.Option(help="How many of the largest terms to show.")] = 16,
    every: Annotated[
        bool, typer.Option("--all", help="Show every term, in the order they are added.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Take one output value of a layer apart, down to the integers that meet.

    Example: quantscope trace resnet8-int8 --layer stack1.conv1 --image 0 --at 3,5,7
    """
    from quantscope.model import open_model
    from quantscope.report import trace_text
    from quantscope.run.integers import trace_value

    if terms < 1:
        raise BadConfigError(f"--terms shows at least 1 term, not {terms}")
    opened = open_model(model)
    trace = trace_value(
        opened,
        layer,
        image,
        _place(at),
        data=load_samples(opened, data, rows, needed=image + 1),
        float_model=float_model,
        int8_kernels=int8_kernels,
    )
    if as_json:
        emit_json(trace.to_dict())
        return
    typer.echo(trace_text(trace, terms=None if every else terms))


def _place(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise BadConfigError(
            f"--at takes whole numbers with commas, such as 3,5,7, not '{text}'"
        ) from None
