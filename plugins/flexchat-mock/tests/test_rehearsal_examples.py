"""What the rehearsal model calls for what a person might say: a table of sentences."""

import datetime as dt
import importlib.util
from pathlib import Path

import pytest
from flexchat_mock.rehearsal.choose_tool import read_tools
from flexchat_mock.rehearsal.plan import plan

_spec = importlib.util.spec_from_file_location("made_up_tools", Path(__file__).with_name("made_up_tools.py"))
made_up_tools = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(made_up_tools)
TOOLS = {name: read_tools(tools) for name, tools in made_up_tools.TOOLS.items()}

FRIDAY = dt.date(2026, 11, 20)


def planned(kind, message, earlier=""):
    return plan(message, TOOLS[kind], FRIDAY, earlier=earlier)


def called(kind, message, earlier=""):
    return [(s.tool, dict(s.arguments)) for s in planned(kind, message, earlier) if s.is_call]


ONE_CALL = {
    "everyday": [
        ("What is 17% of 230?", "calculator", {"expression": "17% of 230"}),
        ("what is 2 plus 2", "calculator", {"expression": "2 + 2"}),
        ("15 percent of 45", "calculator", {"expression": "15% of 45"}),
        ("what is the square root of 144 divided by 3", "calculator", {"expression": "sqrt(144) / 3"}),
        ("3 * (4 + 5)", "calculator", {"expression": "3 * (4 + 5)"}),
        ("What's 12 squared?", "calculator", {"expression": "12^2"}),
        ("how much is twenty five times four", "calculator", {"expression": "25 * 4"}),
        ("what's 1,234.5 * 2?", "calculator", {"expression": "1234.5 * 2"}),
        ("the sum of 1, 2 and 3", "calculator", {"expression": "1 + 2 + 3"}),
        ("What time is it?", "get_current_datetime", {}),
        ("what time is it in new york", "get_current_datetime", {"timezone": "America/New_York"}),
        ("current date in Europe/Madrid", "get_current_datetime", {"timezone": "Europe/Madrid"}),
        ("the clock in San Francisco, please", "get_current_datetime", {"timezone": "America/Los_Angeles"}),
        ("Generate a UUID", "generate_uuid", {}),
        ("give me a unique id please", "generate_uuid", {}),
        ("Echo hello world", "echo", {"text": "hello world"}),
        ('echo "what time is it"', "echo", {"text": "what time is it"}),
        ("What's the weather in Paris?", "get_weather", {"location": "Paris"}),
        ("weather in oslo in fahrenheit", "get_weather", {"location": "oslo", "units": "fahrenheit"}),
        ("I'm in Berlin. What's the weather?", "get_weather", {"location": "Berlin"}),
        ("Convert 100 USD to EUR", "convert_currency", {"amount": 100, "from": "USD", "to": "EUR"}),
        ("how much is 50 euros in dollars?", "convert_currency", {"amount": 50, "from": "EUR", "to": "USD"}),
        ("Send an email to bob@example.com about the quarterly report", "send_email",
         {"to": "bob@example.com", "subject": "quarterly report"}),
        ("Send an email to bob@example.com with subject Lunch and body See you at noon", "send_email",
         {"to": "bob@example.com", "subject": "Lunch", "body": "See you at noon"}),
        ("Search the documents for the refund policy", "search_documents", {"query": "refund policy"}),
        ("find articles on climate change, at most 3 results", "search_documents",
         {"query": "climate change", "max_results": 3}),
        ("look up vacation days in the handbook collection", "search_documents",
         {"query": "vacation days", "collection": "handbook"}),
        ("Set a timer for 10 minutes", "set_timer", {"minutes": 10}),
        ("set a timer for half an hour", "set_timer", {"minutes": 30}),
        ('Translate "good morning" into French', "translate",
         {"text": "good morning", "target_language": "French"}),
        ("What is the price of AAPL?", "get_stock", {"symbol": "AAPL"}),
        ("Book a table for 4 people tomorrow at 7pm", "book_table",
         {"date": "2026-11-21", "people": 4, "time": "19:00"}),
        ("reserve a table on 3 May for two", "book_table", {"date": "2027-05-03", "people": 2}),
    ],
    "work": [
        ("Turn on the light in the kitchen", "set_light", {"room": "kitchen", "state": "on"}),
        ("switch the bedroom lamp off", "set_light", {"room": "bedroom", "state": "off"}),
        ("Add a task to buy milk tomorrow", "create_task", {"title": "buy milk", "due": "2026-11-21"}),
        ("create a high priority task: call the dentist", "create_task",
         {"title": "call the dentist", "priority": "high"}),
        ("show all tasks including done ones", "list_tasks", {"include_done": True}),
        ("Where is my order A-1234?", "get_order_status", {"order_id": "A-1234"}),
        ("cancel order B-77", "cancel_order", {"order_id": "B-77"}),
        ("Roll a dice with 20 sides", "roll_dice", {"sides": 20, "count": 1}),
        ("roll 3 dice", "roll_dice", {"count": 3}),
        ("Add 3, 4 and 5", "add_numbers", {"numbers": [3, 4, 5]}),
        ("Find recipes with eggs, tomatoes and cheese", "find_recipes",
         {"ingredients": ["eggs", "tomatoes", "cheese"]}),
        ("vegetarian recipes with rice and beans", "find_recipes",
         {"ingredients": ["rice", "beans"], "vegetarian": True}),
        ("Find flights from Berlin to Lisbon on 12 December for 2 passengers", "search_flights",
         {"origin": "Berlin", "destination": "Lisbon", "date": "2026-12-12", "passengers": 2}),
        ('Create an event "Team lunch" on 2026-12-01 at 12:30 with bob@x.org and amy@x.org', "create_event",
         {"title": "Team lunch", "start": "2026-12-01T12:30:00Z", "attendees": ["bob@x.org", "amy@x.org"]}),
        ("schedule a meeting called Retro tomorrow at 3pm for 45 minutes", "create_event",
         {"title": "Retro", "start": "2026-11-21T15:00:00Z", "duration_minutes": 45}),
        ("Play Bohemian Rhapsody by Queen", "play_music", {"artist": "Queen", "song": "Bohemian Rhapsody"}),
        ("get user 42", "get_user", {"user_id": 42}),
        ("Convert 100 fahrenheit to celsius", "convert_temperature",
         {"value": 100, "from_unit": "fahrenheit", "to_unit": "celsius"}),
        ("fetch https://example.com/a?b=1 please", "fetch_page", {"url": "https://example.com/a?b=1"}),
        ("read the file notes/todo.txt", "read_file", {"path": "notes/todo.txt"}),
        ("news from France, 5 headlines", "get_news", {"country": "France", "limit": 5}),
        ("Ship a parcel to Anna Smith in Hamburg 20095", "ship_parcel",
         {"recipient": "Anna Smith", "address": {"city": "Hamburg", "zip": "20095"}}),
        ("define serendipity", "define_word", {"word": "serendipity"}),
        ("When is sunrise in Oslo tomorrow?", "get_sunrise", {"city": "Oslo", "date": "2026-11-21"}),
        ("calculate the bmi for 80 kg and 180 cm", "calculate_bmi", {"weight_kg": 80, "height_cm": 180}),
        ("Text +49 170 1234567 saying I will be late", "send_sms",
         {"phone": "+49 170 1234567", "message": "I will be late"}),
    ],
    "texts": [
        ('How many characters are in "hello world"?', "text_length", {"text": "hello world"}),
        ('Replace "cat" with "dog" in "my cat sat"', "text_replace",
         {"text": "my cat sat", "find": "cat", "replace": "dog"}),
        ('Split the text a,b,c at ","', "text_split", {"text": "a,b,c", "separator": ","}),
        ('Change "hello world" to upper case', "text_case", {"text": "hello world", "case": "upper"}),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "message", "tool", "arguments"), [(k, *row) for k, rows in ONE_CALL.items() for row in rows]
)
def test_a_sentence_becomes_this_call(kind, message, tool, arguments):
    """One call, of the tool that fits, with the arguments the sentence holds."""
    assert called(kind, message) == [(tool, arguments)]


SEVERAL_CALLS = [
    ("What is 17% of 230, and what time is it in Tokyo?",
     [("calculator", {"expression": "17% of 230"}), ("get_current_datetime", {"timezone": "Asia/Tokyo"})]),
    ("What time is it in Tokyo, Berlin and New York?",
     [("get_current_datetime", {"timezone": z}) for z in ("Asia/Tokyo", "Europe/Berlin", "America/New_York")]),
    ("What's the weather like in Paris and London?",
     [("get_weather", {"location": "Paris"}), ("get_weather", {"location": "London"})]),
    ("Is it raining in Oslo? Also what is 3 + 4?",
     [("get_weather", {"location": "Oslo"}), ("calculator", {"expression": "3 + 4"})]),
    ("Convert $20 to yen and pounds",
     [("convert_currency", {"amount": 20, "from": "USD", "to": code}) for code in ("JPY", "GBP")]),
    ("translate good night to German and Spanish",
     [("translate", {"text": "good night", "target_language": t}) for t in ("German", "Spanish")]),
    ("stock price of MSFT and GOOG", [("get_stock", {"symbol": "MSFT"}), ("get_stock", {"symbol": "GOOG"})]),
    ("Book a table for 4 people tomorrow and set a timer for 5 minutes",
     [("book_table", {"date": "2026-11-21", "people": 4}), ("set_timer", {"minutes": 5})]),
    ("what is 10 divided by 4 and what is 2 to the power of 10?",
     [("calculator", {"expression": "10 / 4"}), ("calculator", {"expression": "2^10"})]),
]  # fmt: skip


@pytest.mark.parametrize(("message", "expected"), SEVERAL_CALLS)
def test_several_requests_become_several_calls(message, expected):
    """Side by side, in the order they were asked for."""
    assert called("everyday", message) == expected


@pytest.mark.parametrize(
    "message", ["Hello, how are you?", "Tell me a joke", "Thanks!", "what is the capital of France"]
)
def test_what_fits_no_tool_calls_none(message):
    """Small talk and other questions are not pressed into a tool."""
    assert called("everyday", message) == []


@pytest.mark.parametrize(
    ("message", "tool", "missing"),
    [
        ("What is the weather?", "get_weather", ("location",)),
        ("book a table for Friday", "book_table", ("people",)),
        ("convert 100 USD", "convert_currency", ("to",)),
        ("translate into French", "translate", ("text",)),
    ],
)
def test_a_tool_that_lacks_an_argument_is_not_called_but_named(message, tool, missing):
    """The parameter the message says nothing of is told by its name."""
    (step,) = planned("everyday", message)

    assert (step.is_call, step.tool, step.missing) == (False, tool, missing)


@pytest.mark.parametrize(
    ("earlier", "message", "expected"),
    [
        ("What's the weather in London?", "and in Paris?", ("get_weather", {"location": "Paris"})),
        ("What is the weather?", "In Rome", ("get_weather", {"location": "Rome"})),
        ("Convert 5 USD to EUR", "and to yen?", ("convert_currency", {"amount": 5, "from": "USD", "to": "JPY"})),
    ],
)
def test_a_message_that_only_adds_to_the_one_before_is_read_with_it(earlier, message, expected):
    """A follow-up repeats the call with what it says otherwise, or completes it."""
    assert called("everyday", message, earlier) == [expected]
