"""The `memrig` command. Parses nothing itself: :mod:`cli.verbs` finds the verb and runs it."""

from __future__ import annotations

from cli.start import main

if __name__ == "__main__":
    main()  # does not return; signals are handled before the imports below, which take time

from typing import Annotated

import typer

from cli.verbs import LazyGroup

__all__ = ["app", "main"]

app = typer.Typer(
    name="memrig",
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        from harness import __version__

        typer.echo(f"memrig {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Put long-term-memory systems for LLM agents under test, each sealed in its own box.

    Results go to stdout, progress to stderr. Exit codes: 0 ok, 1 the work failed, 2 bad usage or
    refused input, 130 interrupted.

    Examples:
      memrig doctor          what this machine has, and what mends the rest
      memrig bench           reference rows over sample data, to the table
      memrig bench --baseline BM25 --dataset DIR
      memrig VERB --help     every verb has examples
    """
