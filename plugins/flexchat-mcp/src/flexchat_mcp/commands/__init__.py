"""flexchat mcp …: looking at servers, trying them out, and adding them."""
