"""The health of the servers that requests go to: models' services, and those that tools call."""
