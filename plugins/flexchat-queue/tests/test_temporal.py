"""A second engine keeps the laws of queues of turns: the contract is not made after the first."""

import hashlib

import pytest
from flexchat_queue.conformance import TurnQueueConformance
from temporal_queue import TemporalQueue, temporal

__all__ = ["temporal"]


@pytest.mark.slow
# Of the SDK, about a lease that is lost at the moment at which it is completed; as an error it would end the worker.
@pytest.mark.filterwarnings("ignore:Cannot find activity to cancel")
class TestTemporal(TurnQueueConformance):
    """A queue on Temporal, whose own order and fairness are not used."""

    supports = frozenset()

    @pytest.fixture(autouse=True)
    def server(self, temporal):
        self.address = temporal.address

    def make_queue(self, folder, *, lease_s=30.0):
        name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
        return TemporalQueue(self.address, name, lease_s=lease_s)
