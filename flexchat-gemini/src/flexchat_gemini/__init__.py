"""FlexChat provider for Gemini, over its native API."""
