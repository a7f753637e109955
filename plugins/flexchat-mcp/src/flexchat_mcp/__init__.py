"""MCP servers as tools of FlexChat: stdio and HTTP, of both eras of the protocol."""
