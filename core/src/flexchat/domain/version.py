"""The version of core, which all packages share."""

__version__ = "0.1.0"
