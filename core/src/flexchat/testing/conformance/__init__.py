"""The laws of a provider, a handler, an implementation type and a retriever, as classes to subclass."""

from .handler import HandlerConformance
from .implementation import ImplementationConformance
from .laws import Conformance, law
from .provider import ProviderConformance
from .retriever import RetrieverConformance

__all__ = [
    "Conformance",
    "HandlerConformance",
    "ImplementationConformance",
    "ProviderConformance",
    "RetrieverConformance",
    "law",
]
