"""Rewrites a JSON Schema for a provider's dialect.

One walk. A schema is first merged into one piece ($ref, allOf, unions that cannot stay: Rewriting._merge_pieces), then
each of its keywords is treated according to the dialect (keywords.py), then its inner schemas are visited. Keywords
are distinguished from names by position: a property may be called ``title``, ``$ref`` or ``properties``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flexchat.schema.wording import quoted

from .keywords import ACTIONS, FIRST, give_items, give_root_type, give_type, treat_object, with_single_type
from .merge import beside, distinct, merged, one_enum, one_object
from .schema_dialect import RewrittenSchema, SchemaDialect, SchemaNote
from .shape import ANNOTATIONS, LISTS, SINGLE, TABLES, is_null, listed, or_null, sound
from .work import Draft, TooLargeError, Work

MAX_DEPTH = 64
MAX_REFERENCES = 32  # schemas that lead to one another, by $ref or allOf, without a property between them

# A placeholder where an error is already noted; causes no further notes.
_REFUSED = {"type": "boolean"}

_COMPOSED = frozenset(("$ref", "allOf", "anyOf", "oneOf"))


def rewrite(schema: Mapping[str, Any], dialect: SchemaDialect, *, renames: bool = False) -> RewrittenSchema:
    """Return schema as the dialect can express it, and notes on what was changed.

    Leaves its input alone, shares what it need not change, and never raises, whatever JSON value it gets. A schema
    that already fits the dialect is returned unchanged.

    Args:
        renames: Whether properties get other names where the service refuses theirs, as those of a tool may (see
            sent_parameters); otherwise such a name is an error.
    """
    if not isinstance(schema, Mapping):
        note = SchemaNote(severity="error", pointer="", keyword="", message="a schema must be an object")
        return RewrittenSchema(schema=None, notes=(note,))
    work = Work(schema if type(schema) is dict else dict(schema), dialect, renames)
    try:
        result = Rewriting(work).run()
        notes = tuple(dict.fromkeys(work.notes))
    except (TooLargeError, RecursionError) as error:
        text = str(error) if isinstance(error, TooLargeError) else "the schema is nested too deeply; flatten it"
        return RewrittenSchema(schema=None, notes=(SchemaNote(severity="error", pointer="", keyword="", message=text),))
    if any(note.severity == "error" for note in notes):
        return RewrittenSchema(schema=None, notes=notes)
    return RewrittenSchema(schema=schema if result == schema else result, notes=notes, names=work.names)


class Rewriting:
    """The walk through one schema.

    Attributes:
        work: Its notes, its references, and how much was produced so far.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        dialect = self.dialect = work.dialect
        self.note = work.note
        self._actions = dialect.keywords
        self._root_actions = {**dialect.keywords, **dialect.root}
        self._keeps_references = dialect.keywords.get("$ref", "keep") == "keep"
        # Targets of $refs: those we are inside of, and those whose schemas are being merged right now.
        self._open = [id(work.root)]
        self._inside_of = 1  # how many of _open there were before the current schema
        self._chain: list[int] = []

    def run(self) -> dict[str, Any]:
        """Return the rewritten schema."""
        result: dict[str, Any] = self.visit(self.work.root)
        definitions = {}
        while self.work.references.waiting:
            name, target = self.work.references.waiting.pop(0)
            self._open, self.work.trail, self.work.level = [id(target)], [self.work.root], 0
            self.work.text += len(name)
            definitions[name] = self.visit(target)
        if definitions:
            result["$defs"] = definitions
        self.work.check_size()
        return result

    # ---- one schema

    def visit(self, schema: Any) -> Any:
        """Return a schema, with everything inside it, rewritten for the dialect."""
        dialect = self.dialect
        if type(schema) is not dict:
            if dialect.boolean_schemas:
                return schema
            if schema is False:
                self.note("error", "false", "a schema that allows nothing cannot be expressed; remove it")
            schema = {}
        self.work.count()
        at_root = not self.work.trail
        self.work.trail.append(schema)
        if len(self.work.trail) > MAX_DEPTH:
            raise TooLargeError(f"the schema is nested more than {MAX_DEPTH} levels deep; flatten it")
        outside, self._inside_of = self._inside_of, len(self._open)
        actions = self._root_actions if at_root else self._actions
        mentions: list[str] = []
        draft = self._merge_pieces(schema, actions, mentions)
        if self._keeps_references or "$ref" not in draft:
            draft = self._apply_actions(draft, actions, mentions, at_root)
        self.work.trail.pop()
        del self._open[self._inside_of :]
        self._inside_of = outside
        return draft

    def _apply_actions(self, draft: Draft, actions: Mapping[str, str], mentions: list[str], at_root: bool) -> Draft:
        dialect, other = self.dialect, self.dialect.other_keywords
        if not self._keeps_references:  # the needed ones are collected in run
            draft.pop("$defs", None)
            draft.pop("definitions", None)
        if at_root:
            give_root_type(self.work, draft)
        is_nullable = False
        if "nullable" in draft and actions.get("nullable") == "as type":
            is_nullable = draft.pop("nullable")
            self.note("info", "nullable", "nullable is sent as a type")
        for keyword in [*draft]:
            if actions.get(keyword) in FIRST:
                ACTIONS[actions[keyword]](self.work, draft, keyword, mentions)
        if dialect.untyped != "keep" and "type" not in draft and "anyOf" not in draft:
            give_type(self.work, draft)
        for keyword in [*draft]:
            if act := ACTIONS.get(actions.get(keyword, other)):
                act(self.work, draft, keyword, mentions)
        if dialect.null == "nullable" and type(draft.get("type")) is list:
            draft = with_single_type(self.work, draft)
        if draft.get("items") is False and not dialect.boolean_schemas:
            del draft["items"]
            self.note("warning", "items", "an array without items cannot be expressed")
        kinds = listed(draft.get("type"))
        if "array" in kinds and "items" not in draft and "prefixItems" not in draft:
            give_items(self.work, draft)
        if "object" in kinds or "properties" in draft:
            treat_object(self.work, draft, self.visit, at_root=at_root)
        if "enum" in draft:
            self.work.values += len(draft["enum"])
            self.work.text += sum(len(value) for value in draft["enum"] if type(value) is str)
        self._inside(draft)
        if mentions and not self.work.is_mute:
            mention = f"({', '.join(mentions)})"
            draft["description"] = f"{draft['description']} {mention}" if draft.get("description") else mention
        if dialect.upper_case_types and "type" in draft:
            draft["type"] = draft["type"].upper()
        return or_null(draft) if is_nullable else draft

    def _inside(self, draft: Draft) -> None:
        """Visit everything inside a schema except properties."""
        for keyword in [*draft]:
            value = draft[keyword]
            if keyword in SINGLE:
                draft[keyword] = value if type(value) is bool and keyword != "items" else self.visit(value)
            elif keyword == "anyOf":
                self._forms(draft)
            elif keyword in LISTS:
                draft[keyword] = [self.visit(form) for form in value]
            elif keyword in TABLES and keyword != "properties":
                draft[keyword] = {name: self.visit(inner) for name, inner in value.items()}

    def _forms(self, draft: Draft) -> None:
        """Visit the forms of a union; different forms may become the same in the dialect."""
        forms = draft["anyOf"]
        usable = [form for form in forms if form is not False or self.dialect.boolean_schemas]
        visited = [self.visit(form) for form in usable or forms[:1]]
        visited = distinct(visited)
        if self.dialect.null == "nullable" and len(visited) > 1 and any(map(is_null, visited)):
            others = [form for form in visited if not is_null(form)]
            draft["nullable"] = bool(others)
            visited = others or visited[:1]
        draft["anyOf"] = visited
        if len(visited) == 1 and not self.dialect.union_siblings and "$ref" not in visited[0]:
            del draft["anyOf"]
            for keyword, value in visited[0].items():
                draft.setdefault(keyword, value)

    # ---- in one piece

    def _merge_pieces(self, schema: dict[str, Any], actions: Mapping[str, str], mentions: list[str]) -> Draft:
        """Return a copy with its $ref, its allOf and its unions as the dialect can express them."""
        draft, wrong = sound(schema)
        for keyword, text in wrong:
            self.note("error", keyword, text, at=schema)
        if "type" in draft and draft["type"] != schema["type"] and not self.dialect.upper_case_types:
            self.note("info", "type", f"type is sent as {quoted(draft['type'])}", at=schema)
        if "prefixItems" in draft and "prefixItems" not in schema:
            self.note("info", "items", "a list of items is sent as prefixItems", at=schema)
        if _COMPOSED.isdisjoint(draft):
            return draft
        if actions.get("allOf") == "merge":
            draft = self._merge_all_of(draft, mentions)
        if "$ref" in draft:
            draft = self._resolve_reference(draft, actions.get("$ref", "keep"), mentions)
        return self._unions(draft, actions, mentions)

    def _merge_all_of(self, draft: Draft, mentions: list[str]) -> Draft:
        branches = draft.pop("allOf", ())
        if len(branches) == 1 and "$ref" not in draft and type(branches[0]) is dict and branches[0].keys() == {"$ref"}:
            return {**branches[0], **draft}  # how some libraries add a description to a $ref
        for branch in branches:
            target = self._target(branch.get("$ref")) if type(branch) is dict and "$ref" in branch else None
            if self._is_open(target) and self._actions.get("$ref") == "alone":
                self.note("warning", "allOf", "allOf with a schema that contains this one: only its $ref is sent")
                return self._wrap_reference(draft, branch["$ref"])
            draft = self._both(draft, branch, mentions)
        if branches:
            self.note("info", "allOf", "allOf is sent as one schema")
        return draft

    def _resolve_reference(self, draft: Draft, action: str, mentions: list[str]) -> Draft:
        reference = draft["$ref"]
        target = self._target(reference)
        if action == "keep" and target is not None:
            return draft
        del draft["$ref"]
        if target is None:
            return dict(_REFUSED)
        if action == "alone" and type(target) is dict:
            if not draft.keys() - {"$defs", "definitions"}:
                sent = self.work.references.in_defs(reference, target)
                if sent != reference:
                    self.note("info", "$ref", f"{reference} is sent as {sent}")
                return {"$ref": sent}
            if self._is_open(target):
                return self._wrap_reference(draft, reference)
        self.note("info", "$ref", "$ref is written out")
        return self._both(draft, target, mentions, reference=reference)

    def _wrap_reference(self, draft: Draft, reference: str) -> Draft:
        """Return a $ref to a schema that contains this one, with the annotations next to it."""
        forms = [{"$ref": reference}]
        if draft.pop("nullable", False):
            forms.append({"type": "null"})
        if lost := [keyword for keyword in draft if keyword not in ANNOTATIONS]:
            self.note("warning", lost[0], f"{', '.join(lost)} next to a $ref that leads back: left out")
        return {"anyOf": forms, **{key: value for key, value in draft.items() if key not in lost}}

    def _both(self, draft: Draft, other: Any, mentions: list[str], *, reference: str = "") -> Draft:
        """Return a schema that combines both."""
        if type(other) is not dict:
            if other is False:
                self.note("error", "false", "a schema that allows nothing cannot be expressed; remove it")
            return draft
        self.work.count()
        if reference and self._is_open(other):
            text = f"$ref {quoted(reference)} leads back to itself, which {self.dialect.name} cannot express"
            advice = "write out as many levels as needed, or take the value as JSON text in a string"
            self.note("error", "$ref", f"{text}; {advice}")
            return dict(_REFUSED)
        if len(self._chain) > MAX_REFERENCES:
            raise TooLargeError(f"more than {MAX_REFERENCES} schemas lead to one another; write some of them out")
        self._chain.append(id(other))
        inner = self._merge_pieces(other, {"$ref": "write out", "allOf": "merge"}, mentions)
        self._chain.pop()
        self._open.append(id(other))
        if not self._keeps_references:
            inner.pop("$defs", None)
            inner.pop("definitions", None)
        both, lost = merged(draft, inner)
        for keyword in lost:
            self.note("warning", keyword, f"{keyword} is given twice with different values: only the last is sent")
        return both

    def _unions(self, draft: Draft, actions: Mapping[str, str], mentions: list[str]) -> Draft:
        for keyword in ("anyOf", "oneOf"):
            if keyword in draft:
                draft = self._union(draft, keyword, actions.get(keyword, "keep"), mentions)
        return draft

    def _union(self, draft: Draft, keyword: str, action: str, mentions: list[str]) -> Draft:
        dialect = self.dialect
        if action == "flatten":
            return self._flatten(draft, keyword, mentions)
        if not dialect.fold_enums and dialect.union_siblings:
            return draft
        forms = draft[keyword]
        if dialect.null == "nullable" and any(map(is_null, forms)):
            forms = [form for form in forms if not is_null(form)]
            draft["nullable"] = True
            self.note("info", keyword, "null among the forms is sent as nullable")
        if not forms:
            del draft[keyword], draft["nullable"]
            return {**draft, "type": "null"}
        # A $ref that stays one cannot be merged with what is next to it.
        is_loop = dialect.keywords.get("$ref") == "alone" and type(forms[0]) is dict and "$ref" in forms[0]
        folded = one_enum(forms) if dialect.fold_enums else None
        if folded is not None or (len(forms) == 1 and not dialect.union_siblings and not is_loop):
            if folded is not None:
                mentions += folded[1]
                self.note("info", keyword, f"{keyword} of single values is sent as one enum")
            del draft[keyword]
            return self._unions(self._both(draft, forms[0] if folded is None else folded[0], mentions), {}, mentions)
        draft[keyword] = forms
        if not dialect.union_siblings and (apart := beside(draft, keyword)) is not None:
            self.note("info", keyword, f"the keywords next to {keyword} are sent in each of its forms")
            return apart
        return draft

    def _is_open(self, target: Any) -> bool:
        """Return whether a $ref to this target leads back."""
        return id(target) in self._chain or id(target) in self._open[: self._inside_of]

    def _flatten(self, draft: Draft, keyword: str, mentions: list[str]) -> Draft:
        forms = draft.pop(keyword)
        branches = [self._both({}, form, mentions) for form in forms if type(form) is dict]
        if not (objects := [form for form in branches if "object" in listed(form.get("type", "object"))]):
            self.note("error", keyword, f"{keyword} at the root has no form that is an object; write one object")
            return draft
        one, mention = one_object(draft, objects)
        mentions += [mention] if mention else []
        text = f"{keyword} is impossible at the root: one object with the properties of all its forms is sent"
        self.note("warning", keyword, text)
        return one

    def _target(self, reference: Any) -> Any:
        """Resolve a $ref; None, with an error noted, if it does not resolve."""
        target, problem = self.work.references.target(reference)
        if problem:
            self.note("error", "$ref", problem)
            return None
        return target
