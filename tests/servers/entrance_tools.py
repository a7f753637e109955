"""Tools of a configuration, and what has run."""

RAN: list[str] = []


def get_balance() -> str:
    """Get the balance."""
    RAN.append("get_balance")
    return "12"


def get_order() -> str:
    """Get an order."""
    RAN.append("get_order")
    return "none"


def pay() -> str:
    """Pay."""
    RAN.append("pay")
    return "paid"
