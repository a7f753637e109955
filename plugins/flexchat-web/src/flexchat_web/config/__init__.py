"""The configuration's file: shown without secrets, changed at one place, put in force as a whole or not at all."""
