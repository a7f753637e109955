"""Scripted turns, recorded whole: the fence around the engine. See test_traces.py."""
