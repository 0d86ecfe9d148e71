"""The command line: a thin face of the library, one module a command."""

import typer

from quantscope.cli import (
    accumulators,
    capture,
    compare,
    data,
    evaluate,
    graph,
    import_keras,
    inspect,
    play,
    quantize,
    sensitivity,
    study,
    trace,
    whatif,
)
from quantscope.cli.process import run_process

app = typer.Typer(
    name="quantscope",
    help="See every factor of a quantized network, change any of them, watch what happens.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("play")(play.command)
app.command("evaluate")(evaluate.command)
app.command("inspect")(inspect.command)
app.command("graph")(graph.command)
app.command("compare")(compare.command)
app.command("capture")(capture.command)
app.command("sensitivity")(sensitivity.command)
app.command("whatif")(whatif.command)
app.command("trace")(trace.command)
app.command("accumulators")(accumulators.command)
app.command("quantize")(quantize.command)
app.command("study")(study.command)
app.command("import-keras")(import_keras.command)
app.add_typer(data.app, name="data")


def _show_version(wanted: bool) -> None:
    if wanted:
        from quantscope import __version__

        typer.echo(f"quantscope {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False,
        "--version",
        help="Show the version and exit.",
        callback=_show_version,
        is_eager=True,
    ),
    debug: bool = typer.Option(
        False, "--debug", help="Show where an error comes from, and what libraries warn of."
    ),
) -> None:
    del version, debug  # `run_process` takes it wherever it stands, and it is here for the help


def main() -> None:
    """Run what the command line says, and end the process."""
    run_process(app)
