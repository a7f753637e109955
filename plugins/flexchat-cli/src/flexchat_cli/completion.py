"""flexchat completion: the script that makes a shell complete commands, options and names."""

from __future__ import annotations

import click

from .commands import COMPLETE_VARIABLE, CommandGroup
from .context import CommandContext
from .parameters import argument


@click.command
@argument("shell", type=click.Choice(["bash", "zsh", "fish"]), help="the shell")
@click.pass_obj
def completion(context: CommandContext, shell: str) -> None:
    """Print a shell's completion script.

    Put this into the file your shell reads at its start: eval "$(flexchat completion bash)" into ~/.bashrc, the same
    with zsh into ~/.zshrc, and flexchat completion fish | source into ~/.config/fish/config.fish.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click has these shells"
    context.terminal.write(kind(CommandGroup(), {}, "flexchat", COMPLETE_VARIABLE).source() + "\n")
