"""The tools a model may call: their registry, their sources, their execution and their results."""
