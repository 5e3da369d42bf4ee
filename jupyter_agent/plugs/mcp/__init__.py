"""Tools of MCP servers: which there are, and calls of them."""
