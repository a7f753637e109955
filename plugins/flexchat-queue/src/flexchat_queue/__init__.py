"""Workers for FlexChat: they run turns that other processes have accepted, or that were interrupted.

TurnQueue, the contract of a queue, and Worker are public, for programs with a queue of their own.
"""

from flexchat.host import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
