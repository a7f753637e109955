"""A wrapper on loopback, with nothing in it for every test."""

import itertools

import pytest
from chroma_wrapper import ChromaWrapper, running

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def server() -> ChromaWrapper:
    with running() as server:
        yield server


@pytest.fixture
def place() -> str:
    """A name no other test has: the wrapper of this name is empty."""
    return f"wrapper{next(NUMBERS)}"
