"""The configuration's file: shown without secrets, changed in one place, applied as a whole or not at all."""
