"""One list of named steps for every tool call; steps.py is the file to read."""
