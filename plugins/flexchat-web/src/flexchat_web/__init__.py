"""FlexChat over HTTP."""
