"""The command line: a thin face of the library, one module a command."""

import sys

import click
import typer

from quantscope.cli import data, evaluate, import_keras
from quantscope.cli.console import messages
from quantscope.errors import QuantscopeError

app = typer.Typer(
    name="quantscope",
    help="See every factor of a quantized network, change any of them, watch what happens.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("evaluate")(evaluate.command)
app.command("import-keras")(import_keras.command)
app.add_typer(data.app, name="data")


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", help="Show the version and exit."),
) -> None:
    if version:
        from quantscope import __version__

        typer.echo(f"quantscope {__version__}")
        raise typer.Exit


def main() -> None:
    """Run a command. Bad input is one line on stderr and exit code 2, never a traceback."""
    try:
        code = app(standalone_mode=False)
    except QuantscopeError as error:
        messages.print(f"quantscope: {error}", markup=False)
        code = 2
    except click.UsageError as error:
        hint = f" See: {error.ctx.command_path} --help" if error.ctx else ""
        messages.print(f"quantscope: {error.format_message().rstrip()}{hint}", markup=False)
        code = 2
    except (KeyboardInterrupt, click.Abort):
        messages.print("quantscope: stopped", markup=False)
        code = 130
    sys.exit(code)
