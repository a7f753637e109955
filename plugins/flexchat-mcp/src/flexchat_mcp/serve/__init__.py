"""FlexChat as an MCP server: its tools, prompts, documents and the chat, over stdio and HTTP, in both eras."""
