"""Give the command line: a thin face of the library, one module a command.

How it is put together
- A command module parses words, calls the library and shows the result: `command` is all that it
  offers. What it says comes from `quantscope.report`, what it does from the other rooms.
- `options.py` has the options that commands share, `outputs.py` what keeps the files that they
  write from harming others, `models.py` how a model is opened by its name.
- `console.py` prints: results on stdout, progress and messages on stderr, JSON for machines.
- `process.py` is a command as a process: exit codes, signals, and one line for whatever goes wrong.

How a command is added
1. `NAME.py` with `command`, decorated with `@careful`; an option that is a file it writes is marked
   with `Writes`, and --json comes last. Its docstring is its help and ends with an example.
2. Libraries and other rooms are imported inside of it, so that --help and the other commands do
   not wait for them.
3. The result's text in `quantscope.report`; here `show(...)`, or `emit_json(result.to_dict())`.
4. A line of `_COMMANDS` below.
"""

import typer

from quantscope.cli import (
    accumulators,
    bits,
    calibration,
    capture,
    compare,
    cure,
    data,
    diagnose,
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
    rich_markup_mode=None,  # rich's panels leave 18 of 80 columns for words
    context_settings={"help_option_names": ["-h", "--help"]},
)
# --help lists the commands in this order.
_COMMANDS = {
    "play": play.command,
    "evaluate": evaluate.command,
    "inspect": inspect.command,
    "graph": graph.command,
    "compare": compare.command,
    "capture": capture.command,
    "sensitivity": sensitivity.command,
    "diagnose": diagnose.command,
    "cure": cure.command,
    "bits": bits.command,
    "calibration": calibration.command,
    "whatif": whatif.command,
    "trace": trace.command,
    "accumulators": accumulators.command,
    "quantize": quantize.command,
    "study": study.command,
    "import-keras": import_keras.command,
}
for _name, _command in _COMMANDS.items():
    # Without this, the list of commands would cut its sentences where they do not fit a line.
    app.command(_name, short_help=(_command.__doc__ or "").split("\n\n")[0])(_command)
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
