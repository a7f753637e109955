"""The commands flexchat new and flexchat plugins verify."""

from . import new, verify

COMMANDS = (*new.COMMANDS, *verify.COMMANDS)
