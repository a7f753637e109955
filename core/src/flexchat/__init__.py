"""FlexChat."""
