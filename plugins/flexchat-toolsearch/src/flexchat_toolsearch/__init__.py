"""Tool search: a model finds the tools it needs among thousands."""
