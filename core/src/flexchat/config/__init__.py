"""Configuration: from a file to a Config, with every problem at once."""
