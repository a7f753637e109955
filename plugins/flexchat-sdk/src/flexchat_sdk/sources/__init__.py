"""The tool sources of a configuration, and the file of the tools that were accepted from them."""
