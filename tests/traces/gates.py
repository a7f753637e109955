"""What plugins say to a call."""

from flexchat_testing import calls

from .doubles import A, BrokenGate, BrokenObserver, Gate, Serving, echo, save
from .recording import Scene, scene


@scene
def refused():
    return Scene(models=[calls(A), "Pity."], tools=[echo], gates=[Gate()])


@scene
def one_of_two_refused():
    return Scene(models=[calls(A, ("save", {"text": "b"})), "Half."], tools=[echo, save], gates=[Gate()])


@scene
def answered_in_its_place():
    return Scene(models=[calls(A), "Done."], tools=[echo], gates=[Serving()])


@scene
def broken():
    return Scene(models=[calls(A), "Pity."], tools=[echo], gates=[BrokenGate()])


@scene
def the_last_one_first():
    return Scene(models=[calls(A), "Done."], tools=[echo], gates=[Gate(), Serving()])


@scene
def an_observer_that_breaks():
    return Scene(models=["Fine."], gates=[BrokenObserver()])
