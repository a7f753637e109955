"""The kit that providers are built of, for services that are asked over HTTP."""
