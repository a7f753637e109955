"""The public names of ``flexchat_queue``, for type checkers and for the module itself."""

from .turn_queue import Lease as Lease, QueuedTurn as QueuedTurn, TurnQueue as TurnQueue
from .procrastinate_queue import ProcrastinateQueue as ProcrastinateQueue
from .worker import Worker as Worker
