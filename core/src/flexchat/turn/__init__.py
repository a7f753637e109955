"""The six phases of a turn, one file each, and what they need."""
