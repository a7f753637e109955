"""FlexChat provider for Anthropic's Messages API."""
