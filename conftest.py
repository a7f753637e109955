"""What all tests share."""

import os

import pytest
from hypothesis import settings

# No deadline: the machines are slow at times. In CI the examples are the same in every run.
settings.register_profile("flexchat", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("flexchat")


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio: FlexChat needs nothing else."""
    return "asyncio"
