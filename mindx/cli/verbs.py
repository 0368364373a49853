"""The verbs of `mindx`, each loaded only when it is used, so that help comes at once."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import click

from mindx.cli.errors import ReaderGoneError
from mindx.core.frozen import dataclass
from mindx.core.nearest import did_you_mean


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a command lives, and its line in the help."""

    module: str
    help: str


# The main jobs first; a verb whose module does not exist is not listed.
VERBS = {
    "run": Verb("mindx.cli.run", "Run a plan in a container and show what it did."),
    "check": Verb("mindx.cli.check", "Say what is wrong with a plan, without a container."),
    "exec": Verb("mindx.cli.exec", "Run one program in a container."),
    "shell": Verb("mindx.cli.shell", "Use SimpleCoder interactively."),
    "agent": Verb("mindx.cli.agent", "Give an agent a goal and let it work in a container."),
    "chat": Verb("mindx.cli.chat", "Work with a coding agent in a conversation."),
    "task": Verb("mindx.cli.task", "Run, resume and list tasks that outlive a process."),
    "mission": Verb("mindx.cli.mission", "Divide a directive into phases and see it through."),
    "missions": Verb("mindx.cli.missions", "List and show missions."),
    "campaign": Verb("mindx.cli.campaign", "Run, list, show and stop campaigns: the system works on its own tools."),
    "tools": Verb("mindx.cli.tools", "List, show, test and deprecate the tools that campaigns have made."),
    "coordinator": Verb("mindx.cli.coordinator", "Look at the society, and approve what it makes better."),
    "beliefs": Verb("mindx.cli.beliefs", "List and show what agents believe."),
    "changes": Verb("mindx.cli.changes", "Show or apply what a run changed."),
    "runs": Verb("mindx.cli.runs", "List and show past runs."),
    "watch": Verb("mindx.cli.watch", "Follow runs while they go on."),
    "trace": Verb("mindx.cli.trace", "Show, replay or verify the record of a run."),
    "policy": Verb("mindx.cli.policy", "Check and explain policies."),
    "trust": Verb("mindx.cli.trust", "Trust the policy and settings that a project brings."),
    "config": Verb("mindx.cli.config", "Show the settings in force and who set them."),
    "image": Verb("mindx.cli.image", "Build, list, move and remove the images of sessions."),
    "setup": Verb("mindx.cli.setup", "Install and start the engine, and build the base image."),
    "doctor": Verb("mindx.cli.doctor", "Check the engine and what mindx needs."),
    "verify": Verb("mindx.cli.verify", "Prove in a container that the controls are in force."),
    "schema": Verb("mindx.cli.schema", "Print the JSON Schema of a document that --json prints."),
    "completion": Verb("mindx.cli.completion", "Print the completion script of a shell."),
    "gc": Verb("mindx.cli.gc", "Remove containers whose mindx has died."),
}

# The nearest verb by its letters (`verify`, `shell`) is not what was meant.
_OPTIONS_TYPED_AS_VERBS = {"help": "--help", "version": "--version"}


class LazyGroup(click.Group):
    """A group that imports a verb's module only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs that exist."""
        return [name for name, verb in VERBS.items() if _exists(verb)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a verb; its module calls it `command`."""
        verb = VERBS.get(cmd_name)
        if verb is None or not _exists(verb):
            return None
        command: click.Command = importlib.import_module(verb.module).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; for a name that does not exist, name the nearest that does."""
        if args[0] in VERBS or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        if args[0] in _OPTIONS_TYPED_AS_VERBS:
            meant = _OPTIONS_TYPED_AS_VERBS[args[0]]
            raise click.UsageError(f"there is no command {args[0]!r}; write `mindx {meant}`")
        if hint := did_you_mean(args[0], self.list_commands(ctx)):
            ctx.fail(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; a reader that has gone is told apart from other ends."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderGoneError from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs with their one line each, without importing them."""
        rows = [(name, VERBS[name].help) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def _exists(verb: Verb) -> bool:
    return importlib.util.find_spec(verb.module) is not None


EPILOG = """\b
Examples:
  mindx check plan.json
  mindx run plan.json --workspace .
  mindx exec -- python3 -c 'print(1)'

Exit codes: 0 done; 1 a step failed; 2 bad input; 3 denied by policy;
4 sandbox, engine or state folder broken; 5 partial; 6 the model failed; 130 interrupted."""


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EPILOG,
    no_args_is_help=True,
)
@click.version_option(package_name="mindx", message="%(prog)s %(version)s")
def cli() -> None:
    """Run plans that nobody vetted in a container without network, and review what they changed."""
