"""Conformance subject: the mock tools that FlexChat's test kit exercises.

Used by tests/test_conformance.py and by ``flexchat plugins verify mock``.
"""

from __future__ import annotations

from flexchat_testing import ImplementationConformance

from .implementation import MOCK


class Mock(ImplementationConformance):
    """The implementation type."""

    supports = frozenset({"checks", "refuses"})
    plugin = "flexchat_mock.plugin"
    implementation = MOCK
    settings = (
        {"mock_response": {"degrees": [21]}},
        {"mock_response": None},
        {"responses": [{"when": {"n": 1}, "response": {"one": 1}}], "mock_response": "another"},
        {"sequence": [{"response": {"status": "done"}, "delay_ms": 1}]},
    )
    wrong_settings = (
        {},
        {"mock_response": 1, "error": "both"},
        {"mock_response": 1, "delay_ms": -1},
        {"responses": [{"when": {"m": 1}, "response": 1}]},
        {"mock_respose": 1},
    )
    failing = ({"error": "the service is closed on Sundays"}, {"responses": [{"when": {"n": 2}, "response": 1}]})
