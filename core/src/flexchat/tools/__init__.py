"""The tools a model may call: which exist, how they are run, and what they return."""
