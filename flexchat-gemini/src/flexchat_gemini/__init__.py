"""FlexChat provider for Gemini."""
