"""The commands: validate, validations, cases, record."""
