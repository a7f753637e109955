"""What of a long conversation is sent: the public names are the table and the pure functions behind it."""
