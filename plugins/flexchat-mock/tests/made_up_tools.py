"""Tools nobody has: the rehearsal model must work with whatever it is given."""


def tool(name, description, required="", **properties):
    schema = {"type": "object", "properties": properties, "required": required.split()}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def text(description="", **rest):
    return {"type": "string", **({"description": description} if description else {}), **rest}


INTEGER, NUMBER, BOOLEAN = {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
DEGREES = text(enum=["celsius", "fahrenheit", "kelvin"])


def array(items, description=""):
    return {"type": "array", "items": items, "description": description}


TOOLS = {
    "everyday": [
        tool("calculator", "Evaluate an arithmetic expression.", "expression", expression=text("Such as 2 + 3 * 4")),
        tool("get_current_datetime", "Get the current date and time.", timezone=text("IANA name")),
        tool("generate_uuid", "Generate a random UUID (version 4)."),
        tool("echo", "Echo the text back.", "text", text=text()),
        tool("get_weather", "Get current weather for a location", "location", location=text("City"),
             units=text(enum=["celsius", "fahrenheit"])),
        tool("convert_currency", "Convert an amount of money between currencies", "amount from to", amount=NUMBER,
             **{"from": text("Source currency code"), "to": text("Target currency code")}),
        tool("send_email", "Send an email to someone", "to subject", to=text("Recipient", format="email"),
             subject=text(), body=text()),
        tool("search_documents", "Search the documents for information", "query", query=text("Search query"),
             collection=text("Collection name"), max_results={**INTEGER, "minimum": 1, "maximum": 20}),
        tool("set_timer", "Start a countdown timer", "minutes", minutes=NUMBER),
        tool("translate", "Translate text into another language", "text target_language", text=text(),
             target_language=text("Language to translate into")),
        tool("get_stock", "Look up the price of a stock", "symbol", symbol=text("Ticker symbol")),
        tool("book_table", "Reserve a table at the restaurant", "date people", date=text(format="date"),
             people={**INTEGER, "description": "Number of guests"}, time=text("HH:MM")),
    ],
    "work": [
        tool("set_light", "Switch a lamp on or off", "room state", room=text("Room"), state=text(enum=["on", "off"]),
             brightness={**INTEGER, "minimum": 0, "maximum": 100, "description": "Percent"}),
        tool("create_task", "Add a task to the to-do list", "title", title=text("What to do"), due=text(format="date"),
             priority=text(enum=["low", "medium", "high"])),
        tool("list_tasks", "List the open tasks", include_done=BOOLEAN, limit=INTEGER),
        tool("get_order_status", "Look up where an order is", "order_id", order_id=text("Such as A-1234")),
        tool("cancel_order", "Cancel an order", "order_id", order_id=text("Order number")),
        tool("roll_dice", "Roll one or more dice", sides={**INTEGER, "minimum": 2}, count=INTEGER),
        tool("add_numbers", "Add numbers", "numbers", numbers=array(NUMBER)),
        tool("find_recipes", "Find recipes", "ingredients", ingredients=array(text()), vegetarian=BOOLEAN),
        tool("search_flights", "Search for flights", "origin destination date", origin=text("City"),
             destination=text("City"), date=text(format="date"), passengers=INTEGER),
        tool("create_event", "Create a calendar event", "title start", title=text(), start=text(format="date-time"),
             attendees=array(text(), "email addresses"), duration_minutes=INTEGER),
        tool("play_music", "Play a song or artist", artist=text(), song=text("Song title")),
        tool("get_user", "Get a user by id", "user_id", user_id={**INTEGER, "description": "Numeric id"}),
        tool("convert_temperature", "Convert a temperature", "value from_unit to_unit", value=NUMBER,
             from_unit=DEGREES, to_unit=DEGREES),
        tool("fetch_page", "Fetch a web page", "url", url=text(format="uri")),
        tool("read_file", "Read a file", "path", path=text()),
        tool("get_news", "Get the latest news headlines", topic=text(), country=text(), limit=INTEGER),
        tool("ship_parcel", "Ship a parcel", "recipient address", recipient=text("Name"),
             address={"type": "object", "required": ["city"],
                      "properties": {"city": text(), "zip": text(pattern="^[0-9]{5}$")}}),
        tool("define_word", "Define an English word", "word", word=text()),
        tool("get_sunrise", "Sunrise and sunset times", "city", city=text(), date=text("YYYY-MM-DD")),
        tool("calculate_bmi", "Calculate body mass index", "weight_kg height_cm", weight_kg=NUMBER, height_cm=NUMBER),
        tool("send_sms", "Send a text message to a phone", "phone message", phone=text(), message=text()),
    ],
    "texts": [
        tool("text_length", "Count the characters, words and lines of a text.", "text", text=text()),
        tool("text_replace", "Replace every occurrence of a piece of text.", "text find", text=text(), find=text(),
             replace=text("What to put in its place")),
        tool("text_split", "Cut a text into parts.", "text", text=text(), separator=text("Where to cut")),
        tool("text_case", "Change the case of a text.", "text case", text=text(), case=text(enum=["upper", "lower"])),
    ],
}  # fmt: skip
