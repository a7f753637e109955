"""What OpenAI takes of JSON Schema: data."""

from flexchat.plugin import SchemaDialect

LOOSE = SchemaDialect(name="openai")
STRICT = SchemaDialect(name="openai.strict")
