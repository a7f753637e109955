"""mcp_server.py as a program whose code is kept compiled, as that of a module is: tests start hundreds of them."""

from mcp_server import main

main()
