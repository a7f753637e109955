"""What is known about the health of the servers that are asked: models' services, and those that tools call."""
