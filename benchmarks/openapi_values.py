"""Values that a JSON Schema accepts, by chance; for benchmarks and tests of tools from documents."""

import math
import random
import re
from re import _constants as sre
from re import _parser as sre_parser
from typing import Any

import jsonschema

TEXTS = ("a", "Ab1", "x y", "é", "a&b=c", "100%", "#1", "1+1", "q?", "a,b", "0", "true", "a;b", "ß→", "[x]", "a:b@c")
FORMATS = {
    "date": "2024-02-29",
    "date-time": "2024-02-29T12:30:00Z",
    "time": "12:30:00Z",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "email": "a@example.com",
    "idn-email": "a@example.com",
    "uri": "https://example.com/a?b=c&d",
    "url": "https://example.com/a?b=c&d",
    "uri-reference": "/a",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "byte": "AAEC",
    "binary": "AAEC",
    "duration": "P1D",
    "json-pointer": "/a",
    "regex": "a",
    "password": "p&w",
}
DEEPEST = 7


class NoValueError(Exception):
    """No value was found: the schema accepts none, or is beyond this generator."""


class Values:
    """Makes values of one tool's parameters."""

    def __init__(self, schema: dict[str, Any], chance: random.Random) -> None:
        self.root, self.chance = schema, chance
        self.optional = False
        self.validator = jsonschema.Draft202012Validator(schema)

    def arguments(self, *, optional: bool) -> dict[str, Any]:
        """Return arguments: the required ones, or others, too."""
        self.optional = optional
        error: Any = None
        for attempt in range(12):
            try:
                value = self.value(self.root, 0)
            except (NoValueError, RecursionError) as trouble:
                error = str(trouble)
                self.optional = optional and attempt < 6
                continue
            error = next(self.validator.iter_errors(value), None)
            if error is None:
                return value
            self.optional = optional and attempt < 6
        raise NoValueError(str(getattr(error, "message", error)))

    def value(self, schema: Any, depth: int) -> Any:
        """Return a value of a schema."""
        if schema is True or schema == {}:
            return self.chance.choice(TEXTS)
        if schema is False:
            raise NoValueError("nothing is valid")
        if depth > 3 * DEEPEST:
            raise NoValueError("endless")
        if "$ref" in schema:
            target = self.root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
            rest = {key: each for key, each in schema.items() if key not in ("$ref", "description", "default")}
            return self.value(both(target, rest) if rest else target, depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            fitting = [each for each in schema["enum"] if self.is_valid(each, schema)]
            if not fitting:
                raise NoValueError(f"no enum value is valid: {schema['enum'][:3]} of {schema.get('type')}")
            return self.chance.choice(fitting)
        if "allOf" in schema:
            merged = {key: each for key, each in schema.items() if key != "allOf"}
            for each in schema["allOf"]:
                merged = both(merged, self.plain(each))
            return self.value(merged, depth + 1)
        for keyword in ("oneOf", "anyOf"):
            if keyword in schema:
                rest = {key: each for key, each in schema.items() if key != keyword}
                return self.value(both(rest, self.plain(self.chance.choice(schema[keyword]))), depth + 1)
        return self.typed(schema, depth)

    def plain(self, schema: Any) -> Any:
        """Return a schema without a reference at its top."""
        while isinstance(schema, dict) and "$ref" in schema:
            target = self.root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
            schema = both(target, {key: each for key, each in schema.items() if key != "$ref"})
        return schema

    def is_valid(self, value: Any, schema: Any) -> bool:
        return self.validator.evolve(schema=schema).is_valid(value)

    def typed(self, schema: dict[str, Any], depth: int) -> Any:
        types = schema.get("type")
        if types is None:
            types = "object" if schema.keys() & {"properties", "required", "additionalProperties"} else "string"
            types = "array" if "items" in schema else types
            types = "number" if schema.keys() & {"minimum", "maximum"} else types
        if isinstance(types, list):
            types = self.chance.choice([each for each in types if each != "null"] or types)
        return getattr(self, f"{types}_")(schema, depth)

    def null_(self, schema: dict[str, Any], depth: int) -> None:
        return None

    def boolean_(self, schema: dict[str, Any], depth: int) -> bool:
        return self.chance.random() < 0.5

    def integer_(self, schema: dict[str, Any], depth: int) -> int:
        low, high = schema.get("minimum", schema.get("exclusiveMinimum", -math.inf)), schema.get("maximum", math.inf)
        high = min(high, schema.get("exclusiveMaximum", math.inf))
        low = math.ceil(low) if low > -math.inf else (0 if high >= 0 else math.floor(high) - 10)
        high = math.floor(high) if high < math.inf else low + 100
        low += schema.get("exclusiveMinimum") == low
        high -= schema.get("exclusiveMaximum") == high
        step = schema.get("multipleOf", 1)
        if low > high:
            raise NoValueError("no integer is between")
        value = self.chance.randint(low, min(high, low + 1000))
        if step != 1 and (value % step):
            value = math.ceil(value / step) * step
            value = int(value) if value <= high else int(high // step * step)
        return value

    def number_(self, schema: dict[str, Any], depth: int) -> float:
        low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
        low, high = max(low, schema.get("exclusiveMinimum", low)), min(high, schema.get("exclusiveMaximum", high))
        if low == -math.inf:
            low = 0 if high > 0 else high - 10
        if high == math.inf:
            high = low + 100
        step = schema.get("multipleOf")
        if step:
            value = math.ceil(low / step) * step + step * (schema.get("exclusiveMinimum") == low)
            return int(value) if value == int(value) else value
        return round((low + high) / 2, 3) if high - low > 0.01 else (low + high) / 2

    def string_(self, schema: dict[str, Any], depth: int) -> str:
        least, most = schema.get("minLength", 0), schema.get("maxLength", math.inf)
        if "pattern" in schema:
            for attempt in range(20):
                made = from_pattern(
                    schema["pattern"], self.chance, spare=attempt % 4, least=least if attempt > 4 else 0
                )
                if least <= len(made) <= most and re.search(schema["pattern"], made):
                    return made
            raise NoValueError(f"no text for {schema['pattern'][:100]}, {least} to {most}")
        if schema.get("contentEncoding") == "base64":
            return "AAEC" * max(1, math.ceil(least / 4))
        made = FORMATS.get(schema.get("format", ""), "") or self.chance.choice(TEXTS)
        made += "x" * (least - len(made))
        return made if len(made) <= most else made[: int(most)]

    def array_(self, schema: dict[str, Any], depth: int) -> list[Any]:
        first = [self.value(each, depth + 1) for each in schema.get("prefixItems", ())]
        least = max(schema.get("minItems", 0), 1 if self.optional and depth < DEEPEST else 0)
        most = schema.get("maxItems", 10)
        items = schema.get("items", {})
        made = list(first)
        for _ in range(200):
            if len(made) >= min(max(least, len(first)), max(most, least)):
                return made
            value = self.value(items, depth + 1)
            if not schema.get("uniqueItems") or value not in made:
                made.append(value)
        if len(made) < schema.get("minItems", 0):
            raise NoValueError("not enough different items")
        return made

    def object_(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties, required = schema.get("properties", {}), schema.get("required", ())
        made = {}
        for name in required:
            made[name] = self.value(properties.get(name, self._other(schema)), depth + 1)
        if self.optional and depth < DEEPEST:
            for name, each in properties.items():
                if name not in made and len(made) < schema.get("maxProperties", 99) and self.chance.random() < 0.6:
                    try:
                        made[name] = self.value(each, depth + 1)
                    except NoValueError:
                        continue
        names = [name for name in properties if name not in made] + [f"key{n}" for n in range(9)]
        while len(made) < schema.get("minProperties", 0) and names:
            name = names.pop(0)
            made[name] = self.value(properties.get(name, self._other(schema)), depth + 1)
        return made

    def _other(self, schema: dict[str, Any]) -> Any:
        other = schema.get("additionalProperties", {})
        return {} if isinstance(other, bool) else other


def both(one: Any, other: Any) -> Any:
    """Return a schema for values that both accept, roughly."""
    if one is True or other is True:
        return other if one is True else one
    if one is False or other is False:
        return False
    made = dict(one)
    for key, value in other.items():
        if key not in made or made[key] == value:
            made[key] = value
        elif key == "properties":
            made[key] = {**made[key], **{n: both(made[key][n], v) if n in made[key] else v for n, v in value.items()}}
        elif key == "required":
            made[key] = [*dict.fromkeys((*made[key], *value))]
        elif key in ("allOf",):
            made[key] = [*made[key], *value]
        elif key in ("oneOf", "anyOf", "$ref"):
            made["allOf"] = [*made.get("allOf", ()), {key: value}]
        elif key in ("minimum", "minLength", "minItems", "minProperties"):
            made[key] = max(made[key], value)
        elif key in ("maximum", "maxLength", "maxItems", "maxProperties"):
            made[key] = min(made[key], value)
        elif key == "enum":
            made[key] = [each for each in made[key] if each in value] or made[key]
        elif key == "type":
            mine = made[key] if isinstance(made[key], list) else [made[key]]
            theirs = value if isinstance(value, list) else [value]
            made[key] = [each for each in mine if each in theirs] or mine
    return made


def from_pattern(pattern: str, chance: random.Random, *, spare: int, least: int) -> str:
    """Return a text that a regular expression probably matches; each repetition may have a few more than it needs."""
    try:
        with_classes = re.sub(r"\\p\{[^}]*\}", "a-zA-Z", pattern)
        tree = sre_parser.parse(with_classes)
    except (re.error, OverflowError, RecursionError):
        raise NoValueError(f"pattern {pattern[:80]}") from None
    made = "".join(_piece(*node, chance, spare, least) for node in tree)
    return made


def _piece(kind: Any, value: Any, chance: random.Random, spare: int, least: int) -> str:
    if kind is sre.LITERAL:
        return chr(value)
    if kind is sre.NOT_LITERAL:
        return "b" if value == ord("a") else "a"
    if kind is sre.ANY:
        return "a"
    if kind is sre.IN:
        return _member(value, chance)
    if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        low, high, inner = value
        count = min(max(low + spare, least), 2000 if high is sre.MAXREPEAT else int(high))
        return "".join(_piece(*node, chance, spare, 0) for _ in range(max(low, count)) for node in inner)
    if kind is sre.SUBPATTERN:
        return "".join(_piece(*node, chance, spare, least) for node in value[-1])
    if kind is sre.BRANCH:
        return "".join(_piece(*node, chance, spare, least) for node in chance.choice(value[1]))
    return ""


def _member(items: Any, chance: random.Random) -> str:
    if items[0][0] is sre.NEGATE:
        for each in "a1 _-.Z%":
            if re.fullmatch(_as_class(items), each):
                return each
        return "~"
    kind, value = chance.choice(items)
    if kind is sre.LITERAL:
        return chr(value)
    if kind is sre.RANGE:
        return chr(chance.randint(value[0], min(value[1], value[0] + 25)))
    return {sre.CATEGORY_DIGIT: "7", sre.CATEGORY_SPACE: " ", sre.CATEGORY_WORD: "w"}.get(value, "a")


def _as_class(items: Any) -> str:
    made = ""
    for kind, value in items[1:]:
        if kind is sre.LITERAL:
            made += re.escape(chr(value))
        elif kind is sre.RANGE:
            made += f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
        else:
            made += {sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_SPACE: r"\s", sre.CATEGORY_WORD: r"\w"}.get(value, "")
    return f"[^{made}]"
