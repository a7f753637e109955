"""Cases and records of other programs."""
