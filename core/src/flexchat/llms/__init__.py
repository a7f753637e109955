"""The models of a config: their services, retries, slots and prices."""
