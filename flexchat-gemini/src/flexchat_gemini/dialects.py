"""What Gemini takes of JSON Schema: data."""

from flexchat.plugin import SchemaDialect

JSON_SCHEMA = SchemaDialect(name="gemini")
PARAMETERS = SchemaDialect(name="gemini.parameters")
