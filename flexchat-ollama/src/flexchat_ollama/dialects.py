"""What Ollama takes of JSON Schema: data."""

from flexchat.plugin import SchemaDialect

TOOLS = SchemaDialect(name="ollama")
