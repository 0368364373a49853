"""`mindx completion`: what makes a shell complete verbs, options and paths."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  mindx completion bash >> ~/.bashrc
  mindx completion zsh >> ~/.zshrc
  mindx completion fish > ~/.config/fish/completions/mindx.fish

\b
bash 4.4 or newer. Start a new shell afterwards.
"""


@click.command(name="completion", epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    from mindx.cli.verbs import cli

    class Bash(BashComplete):
        """click looks for a bash to check its version, which may be another one than the user's."""

        @staticmethod
        def _check_version() -> None:
            pass

    kinds = {"bash": Bash, "zsh": ZshComplete, "fish": FishComplete}
    click.echo(kinds[shell](cli, {}, "mindx", "_MINDX_COMPLETE").source())
