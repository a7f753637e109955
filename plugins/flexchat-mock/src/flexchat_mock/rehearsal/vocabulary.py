"""Words of general English the rehearsal model knows. No tool is named here, and no answer."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP_WORDS = _words(
    """
    a about after again all also am an and any anyone anything are around as ask at be because been before being but by
    can cannot could current currently did do does doing don done down each else ever for from get gets getting give
    given gives go going got had happen happening has have having hello help here hey hi how however i if in into is it
    its itself just kindly know let like made make makes may maybe me might mine more most much must my myself near
    need needs no not now of off okay on once one only or other our out over please quick quickly quite really right run
    s shall she should show shows so some someone something still such sure t tell tells than thank thanks that the
    their them then there these they thing this those though through till to today together tool tools too under until
    up upon us use used uses using very via want wanted wants was way we well were what whats when where whether which
    while who whom whose why will wish with within without would yes yet you your yours
    """
)
"""Words that say nothing about which tool is meant."""

BOILERPLATE = _words(
    """
    based default describe e.g eg etc example format following g ie integer maximum min minimum max name number object
    optional parameter provide provided required result return returns specific specified specify string type value
    values valid
    """
)
"""Words of tool descriptions that say nothing about what the tool is for."""

SYNONYMS = (
    ("time", "clock", "hour", "datetime", "oclock"),
    ("date", "day", "calendar", "datetime", "weekday"),
    ("zone", "timezone", "tz"),
    ("weather", "forecast", "temperature", "rain", "rainy", "sunny", "snow", "snowing", "humidity", "wind", "windy",
     "umbrella", "hot", "cold", "warm", "climate"),
    ("calculate", "calculator", "compute", "arithmetic", "math", "maths", "mathematical", "mathematics", "evaluate",
     "solve", "calc"),
    ("expression", "formula", "equation"),
    ("search", "find", "lookup", "look", "query", "retrieve", "seek"),
    ("document", "documentation", "doc", "article", "page", "handbook", "manual"),
    ("translate", "translation", "translator"),
    ("language", "lang"),
    ("email", "mail", "e-mail"),
    ("message", "sms"),
    ("convert", "conversion", "converter", "exchange", "change"),
    ("currency", "money", "dollar", "euro", "yen", "pound", "usd", "eur", "gbp", "jpy", "chf", "exchange"),
    ("stock", "share", "ticker", "equity"),
    ("price", "cost", "quote", "worth"),
    ("book", "reserve", "reservation", "booking"),
    ("table", "restaurant", "dinner"),
    ("timer", "countdown", "alarm"),
    ("create", "add", "generate", "open", "register", "start"),
    ("delete", "remove", "cancel", "erase"),
    ("update", "change", "edit", "modify", "set"),
    ("list", "enumerate"),
    ("uuid", "guid", "identifier", "unique"),
    ("echo", "repeat"),
    ("news", "headline"),
    ("route", "direction", "distance", "far"),
    ("song", "music", "track"),
    ("light", "lamp", "bulb"),
    ("switch", "turn", "toggle"),
    ("customer", "client", "account"),
    ("order", "purchase", "buy"),
    ("flight", "fly", "plane", "airline"),
    ("ticket", "issue", "bug"),
    ("meeting", "appointment", "event"),
    ("summarize", "summarise", "summary"),
    ("image", "picture", "photo"),
    ("people", "person", "guest"),
    ("note", "memo"),
    ("task", "todo", "remind", "reminder"),
    ("count", "many"),
    ("length", "long"),
    ("random", "dice", "roll"),
    ("user", "member"),
)  # fmt: skip
"""Words that stand for one another."""

ENUM_SYNONYMS = (
    ("celsius", "centigrade", "c", "°c"),
    ("fahrenheit", "f", "°f"),
    ("metric", "celsius", "centigrade", "kilometers", "kilometres", "km"),
    ("imperial", "fahrenheit", "miles"),
    ("high", "urgent", "important"),
    ("asc", "ascending"),
    ("desc", "descending"),
    ("economy", "cheapest"),
    ("male", "man"),
    ("female", "woman"),
)
"""Words that choose one of the values a parameter lists."""

_ONES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_TEENS = ("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
NUMBER_WORDS = {word: number for number, word in enumerate(_ONES + _TEENS)} | {
    word: ten * 10 for ten, word in enumerate(_TENS, start=2)
}
MULTIPLIERS = {"hundred": 100, "thousand": 1_000, "million": 1_000_000}
COUNTS = {
    "half a dozen": 6,
    "a dozen": 12,
    "dozen": 12,
    "a couple": 2,
    "couple": 2,
    "a hundred": 100,
    "a thousand": 1000,
}

SECONDS = {
    "millisecond": 0.001, "ms": 0.001, "msec": 0.001,
    "second": 1, "sec": 1, "s": 1,
    "minute": 60, "min": 60,
    "hour": 3600, "hr": 3600, "h": 3600,
    "day": 86_400,
    "week": 604_800,
}  # fmt: skip
"""Units of time, in seconds; singular."""

CURRENCIES = {
    "$": "USD", "dollar": "USD", "dollars": "USD", "usd": "USD",
    "€": "EUR", "euro": "EUR", "euros": "EUR", "eur": "EUR",
    "£": "GBP", "pound": "GBP", "pounds": "GBP", "sterling": "GBP", "gbp": "GBP",
    "¥": "JPY", "yen": "JPY", "jpy": "JPY",
    "franc": "CHF", "francs": "CHF", "chf": "CHF",
    "rupee": "INR", "rupees": "INR", "₹": "INR", "inr": "INR",
    "yuan": "CNY", "renminbi": "CNY", "cny": "CNY",
    "cad": "CAD", "aud": "AUD", "nzd": "NZD", "sek": "SEK", "nok": "NOK", "dkk": "DKK", "pln": "PLN", "czk": "CZK",
    "zloty": "PLN", "brl": "BRL", "mxn": "MXN", "peso": "MXN", "pesos": "MXN", "krw": "KRW", "sgd": "SGD", "hkd": "HKD",
    "try": "TRY", "zar": "ZAR", "rand": "ZAR", "btc": "BTC", "bitcoin": "BTC", "eth": "ETH",
}  # fmt: skip
"""Currencies by sign, word and code."""

LANGUAGES = {
    "arabic": "ar", "chinese": "zh", "czech": "cs", "danish": "da", "dutch": "nl", "english": "en", "finnish": "fi",
    "french": "fr", "german": "de", "greek": "el", "hebrew": "he", "hindi": "hi", "hungarian": "hu", "italian": "it",
    "japanese": "ja", "korean": "ko", "latin": "la", "norwegian": "no", "polish": "pl", "portuguese": "pt",
    "romanian": "ro", "russian": "ru", "spanish": "es", "swedish": "sv", "turkish": "tr", "ukrainian": "uk",
    "vietnamese": "vi",
}  # fmt: skip
"""Languages and their codes (ISO 639-1)."""

CITY_ZONES = {
    "beijing": "Asia/Shanghai", "mumbai": "Asia/Kolkata", "delhi": "Asia/Kolkata", "new delhi": "Asia/Kolkata",
    "bangalore": "Asia/Kolkata", "india": "Asia/Kolkata", "china": "Asia/Shanghai", "osaka": "Asia/Tokyo",
    "kyoto": "Asia/Tokyo", "germany": "Europe/Berlin", "munich": "Europe/Berlin", "hamburg": "Europe/Berlin",
    "frankfurt": "Europe/Berlin", "cologne": "Europe/Berlin", "france": "Europe/Paris", "spain": "Europe/Madrid",
    "barcelona": "Europe/Madrid", "italy": "Europe/Rome", "milan": "Europe/Rome", "venice": "Europe/Rome",
    "geneva": "Europe/Zurich", "edinburgh": "Europe/London", "manchester": "Europe/London", "england": "Europe/London",
    "nyc": "America/New_York", "boston": "America/New_York", "washington": "America/New_York",
    "miami": "America/New_York", "atlanta": "America/New_York", "philadelphia": "America/New_York",
    "san francisco": "America/Los_Angeles", "seattle": "America/Los_Angeles", "san diego": "America/Los_Angeles",
    "las vegas": "America/Los_Angeles", "california": "America/Los_Angeles", "austin": "America/Chicago",
    "dallas": "America/Chicago", "houston": "America/Chicago", "texas": "America/Chicago",
    "montreal": "America/Toronto", "rio": "America/Sao_Paulo", "rio de janeiro": "America/Sao_Paulo",
    "utc": "UTC", "gmt": "GMT", "est": "America/New_York", "edt": "America/New_York", "cst": "America/Chicago",
    "pst": "America/Los_Angeles", "pdt": "America/Los_Angeles", "bst": "Europe/London", "jst": "Asia/Tokyo",
}  # fmt: skip
"""Places and abbreviations that no IANA zone is named for."""

PREPOSITIONS = _words(
    """
    about after as at before between by called concerning for from in into named near of on regarding saying since
    titled to toward towards under until via with
    """
)
"""Words that lead to a value."""
