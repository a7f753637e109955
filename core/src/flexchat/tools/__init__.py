"""The tools a model may call: which there are, how one is run, and what came of it."""
