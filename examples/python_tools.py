"""FlexChat as a library: functions become tools. Runs offline, on the rehearsal model.

python examples/python_tools.py
"""

from flexchat import SyncFlexChat, ToolFinished, ToolStarted, tool

PRICES = {"apple": 0.4, "bread": 2.8, "coffee": 6.5}


@tool
def get_price(product: str) -> float:
    """Get the price of a product, in euros.

    Args:
        product: Name of the product: apple, bread or coffee.
    """
    if product not in PRICES:
        raise LookupError(f"There is no product '{product}'; there are {', '.join(PRICES)}")
    return PRICES[product]


def main() -> None:
    # A real model: from_model("openai/gpt-5.2", tools=[get_price]), with your key in OPENAI_API_KEY
    with SyncFlexChat.from_model("rehearsal/rehearsal", tools=[get_price]) as chat:
        for event in chat.stream("What is the price of the product coffee?"):
            if isinstance(event, ToolStarted):
                print(f"{event.call.name}({dict(event.call.arguments or {})})")
            elif isinstance(event, ToolFinished):
                print(f"  → {event.record.result.result}")

        turn = chat.respond("What is the price of the product bread?")
        print(turn.content)
        print([(record.tool, dict(record.params)) for record in turn.response.tool_calls or ()])


if __name__ == "__main__":
    main()
