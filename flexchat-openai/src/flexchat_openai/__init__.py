"""FlexChat provider for OpenAI and every server that speaks its Chat Completions or Responses API."""
