"""FlexChat provider for Ollama, over its native API."""
