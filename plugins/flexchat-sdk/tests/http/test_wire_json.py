"""JSON of services is read whatever numbers stand in it."""

import json
import math

import pytest
from flexchat_sdk.http.wire_json import from_bytes


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000, "1e400"])
def test_a_number_beyond_all_others_does_not_cost_the_answer(number):
    """Python refuses to read an integer of more than 4,300 digits; 1e400 it takes for infinite. So here are both."""
    read = from_bytes(b'{"usage": {"n": %s}, "text": "said"}' % number.encode())

    assert read["text"] == "said"
    assert math.isinf(read["usage"]["n"])


def test_what_is_not_json_is_an_error_all_the_same():
    """Only the integer is read otherwise."""
    with pytest.raises(json.JSONDecodeError):
        from_bytes(b'{"n": ' + b"9" * 5000)
