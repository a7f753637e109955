"""The cost of an answer where the service says what it charged."""

from decimal import Decimal

import pytest
from flexchat_openai.models import charged


@pytest.mark.parametrize(
    ("table", "amount"),
    [
        ({"cost": 0.0123}, "0.0123"),
        ({"cost": 0}, "0"),
        ({"cost": 3e-07}, "0.0000003"),
        ({"cost": 0.0123, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.01}}, "0.0123"),
        ({"cost": 0.0005, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.01}}, "0.0105"),
        ({"cost": {"input_tokens_cost": 0.1, "total_cost": 0.25}}, "0.25"),
    ],
)
def test_what_a_service_charged_is_read(table, amount):
    assert charged(table) == Decimal(amount)


@pytest.mark.parametrize(
    "cost", [None, "0.01", True, -0.1, float("nan"), float("inf"), 1e300, 10**400, [], {}, {"total_cost": "1"}]
)
def test_anything_else_is_no_charge(cost):
    """It never costs the answer."""
    assert charged({"cost": cost}) is None


def test_the_fee_for_a_users_own_key_is_not_the_whole_charge():
    assert charged({"cost": 0.0005, "is_byok": True}) is None
