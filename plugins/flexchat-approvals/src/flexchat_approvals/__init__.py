"""Tool calls that a person must approve: policies, the step that asks, and commands."""
