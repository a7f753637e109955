"""FlexChat provider for Ollama."""
