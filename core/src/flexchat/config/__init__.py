"""Configuration: turns a file into a Config, reporting every problem at once."""
