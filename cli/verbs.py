"""The verbs of `memrig`, by name, and the group that loads one only when it is called.

`memrig --help` must cost no more than a bare Typer app's, so the table below holds the one line
that the help page shows; the module behind a verb is imported when the verb runs. A module gives
either a function (one command) or a Typer app (a group of commands).
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from types import ModuleType

START = "Start here"
SYSTEMS = "Systems and data"
RUNS = "Runs and records"
MACHINE = "This machine"


class Verb(NamedTuple):
    """``target`` is ``module:attribute``; ``help`` is the line in the list of verbs."""

    name: str
    target: str
    help: str
    panel: str


#: In the order in which the help page shows them.
VERBS = (
    Verb("doctor", "cli.doctor:doctor", "What this machine has, and what mends it.", START),
    Verb("list", "cli.list:list_", "Systems, what they can do, and what is built.", START),
    Verb("bench", "cli.bench:bench", "Run systems over a data set, to the table.", START),
    Verb("build", "cli.build:build", "Make the images of systems now.", SYSTEMS),
    Verb("source", "cli.source:app", "Get the pinned sources of systems.", SYSTEMS),
    Verb("data", "cli.data:app", "Check data sets; list the formats that can be read.", SYSTEMS),
    Verb("table", "cli.table:table", "The six-dimension table of finished runs.", START),
    Verb(
        "compare",
        "cli.compare:compare",
        "Is the difference between two rows more than chance?",
        START,
    ),
    Verb("explain", "cli.explain:explain", "How a number came about, down to the records.", START),
    Verb("report", "cli.report:report", "Write runs as one static HTML page.", START),
    Verb("new", "cli.new:new", "Make a folder for a new system, working as it stands.", START),
    Verb("check", "cli.check:check", "Try on a system what every adapter promises.", SYSTEMS),
    Verb("run", "cli.run:run", "Run one system over a data set: one row of a bench.", RUNS),
    Verb("judge", "cli.judge:app", "Grade a run's records anew; measure a judge itself.", RUNS),
    Verb("aggregate", "cli.aggregate:aggregate", "Add up a judged run anew.", RUNS),
    Verb("show", "cli.show:show", "A run, or the story of one of its samples.", RUNS),
    Verb("verify", "cli.verify:verify", "Recompute what runs say about themselves.", RUNS),
    Verb("diff", "cli.diff:diff", "Are two runs equal? Reuse, re-judge or re-run.", RUNS),
    Verb("merge", "cli.merge:merge", "Put the shards of a run together.", RUNS),
    Verb("engine", "cli.engine:engine", "Install and start a container engine (Debian).", MACHINE),
    Verb("clean", "cli.clean:clean", "Remove what no live run owns.", MACHINE),
)


class LazyGroup(TyperGroup):
    """The root group: a stub for each verb until it is called; errors become one message."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.help = _for_reading(self.help or "")
        for verb in VERBS:
            self.commands[verb.name] = TyperCommand(
                verb.name, help=verb.help, rich_help_panel=verb.panel
            )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Swap the called verb's stub for its real command, then resolve as usual."""
        verb = next((verb for verb in VERBS if args and verb.name == args[0]), None)
        if verb is not None:
            self.commands[verb.name] = load(verb)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; what it raises is shown by :func:`cli.errors.report`."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            from cli.errors import report_interrupt

            raise typer.Exit(report_interrupt()) from None
        except Exception as error:
            from cli.errors import report

            code = report(error)
            if code is None:
                raise
            raise typer.Exit(code) from None


def load(verb: Verb) -> Any:
    """Import a verb's module and make its command."""
    module_name, _, attribute = verb.target.partition(":")
    return _command_of(verb, import_module(module_name), attribute)


def _command_of(verb: Verb, module: ModuleType, attribute: str) -> Any:
    target = getattr(module, attribute)
    if isinstance(target, typer.Typer):
        command: Any = typer.main.get_group(target)
    else:
        command = _from_function(verb.name, target)
    command.name = verb.name
    _plain(command)
    return command


def _from_function(name: str, function: Callable[..., Any]) -> Any:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name)(function)
    return typer.main.get_command(app)


def _plain(command: Any) -> None:
    """Help texts are plain text: without this, ``[--json]`` in one would be taken for markup."""
    if command.help:
        command.help = _kept_in(_escaped(_for_reading(command.help)))
    for parameter in command.params:
        if getattr(parameter, "help", None):
            parameter.help = _escaped(parameter.help)
    for child in getattr(command, "commands", {}).values():
        _plain(child)


def _for_reading(docstring: str) -> str:
    """A docstring as help: no sections for programmers, and running text without its line ends.

    The terminal breaks the lines of running text; an indented block (Examples) keeps its own.
    """
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    kept = [part for part in paragraphs if not re.match(r"(Args|Raises|Returns):\n", part)]
    return "\n\n".join(
        part if re.search(r"^[ \t]", part, re.MULTILINE) else part.replace("\n", " ")
        for part in kept
    )


def _kept_in(text: str) -> str:
    """Keep the examples indented: a tag without text stands where the help page measures it."""
    return text.replace("Examples:\n ", "Examples:\n[b][/b] ")


def _escaped(text: str) -> str:
    return re.sub(r"(?<!\\)\[(?=[a-zA-Z/@#-])", r"\\[", text)


def debugging() -> bool:
    """``MEMRIG_DEBUG`` is set: show traces."""
    return os.environ.get("MEMRIG_DEBUG", "") not in ("", "0")
