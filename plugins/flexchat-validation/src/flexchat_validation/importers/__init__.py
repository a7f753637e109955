"""Imports cases and records of other programs."""
