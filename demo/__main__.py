"""`python -m demo run`: what `make demo` calls once cluster and images are there."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from demo.errors import DemoError

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.command()
def run(
    minutes: Annotated[float, typer.Option(help="Give up when the run has not ended by then.")] = 60,
) -> None:
    """Installs Assay, evaluates three agent variants on six tasks, and prints the score vector."""
    from demo.run import demonstrate

    if not demonstrate(minutes):
        raise typer.Exit(1)


@app.command()
def evidence(
    name: Annotated[str, typer.Argument(help="Name of the EvaluationRun.")],
    fetch: Annotated[Path | None, typer.Option(help="Copy all of it to this folder.")] = None,
) -> None:
    """Shows what every try of a run left in S3."""
    from demo.evidence import show

    show(name, fetch)


def main() -> None:
    """Runs the command line; a known error is one message and exit status 1."""
    try:
        app()
    except DemoError as error:
        sys.stderr.write(f"demo: {error}\n")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
