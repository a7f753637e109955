"""Which models really call tools: cases, tries, and what they prove."""

from .store import ValidationStore
from .tracker import ModelValidationTracker, ValidationRecord

__all__ = ["ModelValidationTracker", "ValidationRecord", "ValidationStore"]
