"""What all tests share."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio: FlexChat needs nothing else."""
    return "asyncio"
