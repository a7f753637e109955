"""Configuration: a file read into a Config, with every problem reported at once."""
