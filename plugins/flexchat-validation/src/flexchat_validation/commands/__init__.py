"""The commands: validate, validations, cases, record."""

from . import cases, record, validate, validations

COMMANDS = (*validate.COMMANDS, *validations.COMMANDS, *cases.COMMANDS, *record.COMMANDS)
