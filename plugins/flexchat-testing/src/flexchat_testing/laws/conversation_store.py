"""The laws of a conversation store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar

import attrs
from flexchat.store import (
    ConversationHistory,
    ConversationInfo,
    ConversationStore,
    ConversationTurn,
    HistoryTurn,
    StorageError,
    TurnStatus,
    UnknownConversationError,
    turn_to_dict,
)
from flexchat_sdk import AssistantMessage, ReasoningPart, TextPart, ToolMessage, UserMessage, storable

from .kept_samples import hard_turns, paid_turn, turn, unwritable_turn
from .law import canonical, expect, law, opened_in, raising_only, refused, require, show
from .running import PluginConformance

_NOWHERE = "no-such-conversation"
_PLAIN_NAMES = (
    "C",
    "c ",
    " c",
    "%",
    "_",
    "'; DROP TABLE turns; --",
    "../../etc/passwd",
    "漢字",
    "a/b",
    "a:b",
    "\ufb01",
)
_HARD_NAMES = ("c\0", "\0c", "c\ud83d", "c\ud83e", "c?", "c\ufffd", "", "\0", "c" + "x" * 100_000)
_SAID = (
    "Which Straße is 100% dry?",
    "snake_case in C:\\temp",
    "he said \"no\" and 'why'",
    "Λόγος AND (NEAR) [x] {y} * ?",
)
_HOSTILE = (
    *("%", "_", "*", "?", "\\", '"', "'", "(", "NEAR(", "AND", "a AND", "OR b", "-dry", "^", "[x]", "{", "100%", "e_c"),
    *("' OR 1=1 --", "'; DROP TABLE turns; --", "c:\\temp", "\0", "d\0ry", "\ud83d", "\ufeff", "x" * 100_000),
    *("dry " * 5_000, "\u00a0", "\u2028dry\u3000which", '""', "said:no", "title:*", "$1", "%s", "ﬁ", "\U0001f600"),
)


class ConversationStoreConformance(PluginConformance):
    """What every conversation store must do. Write make_store, ``plugin`` and ``supports``; the kit supplies the turns.

    Attributes:
    """

    capabilities: ClassVar[Mapping[str, str]] = {
        "search": "list finds conversations by words",
        "durable": "make_store with a closed store's folder opens the same conversations again",
        "shared": "two stores with one folder may be open at once, as in two processes, and see each other's data",
        "history": "it has the method history of a HistoryStore",
    }

    def make_store(self, folder: Path) -> ConversationStore:
        """Return a store; an empty one for every new folder. Same folder, same conversations."""
        raise NotImplementedError(f"{type(self).__name__} must write make_store")

    def opened(self, folder: Path | None = None) -> AbstractAsyncContextManager[ConversationStore]:
        """Open a store for the length of a law: an empty one, or that of a folder."""
        return opened_in(self.make_store, folder)

    @law()
    async def test_turns_come_back_in_their_order(self, store: ConversationStore) -> None:
        """Oldest first; only the last ones if a number is given: last=0 gives none."""
        added = [turn(f"t{n}", f"message {n}") for n in (3, 1, 10, 2, 9)]
        for one in added:
            await store.append("c", one, tenant="t")
        for last in (None, 0, 1, 3, 5, 100):
            expected = [t.id for t in (added if last is None else added[max(0, 5 - last) :])]
            expect(await _turn_ids(store, "c", last=last), expected, f"turns with last={last}")

    @law()
    async def test_turns_come_back_whole(self, store: ConversationStore) -> None:
        """Nothing of a turn is lost or changed: opaque data, signatures, unreadable arguments, bytes, any text."""
        for one in hard_turns():
            await store.append(one.id, one, tenant="t")
            (came,) = await store.turns(one.id, tenant="t")
            for field in attrs.fields(ConversationTurn):
                was, now = getattr(one, field.name), getattr(came, field.name)
                require(was == now, f"turn {one.id}: {field.name} was {show(was)} and came back as {show(now)}")
            same = canonical(turn_to_dict(one)) == canonical(turn_to_dict(came))
            require(same, f"turn {one.id} came back changed: {show(turn_to_dict(came))}")

    @law()
    async def test_a_turn_is_added_once(self, store: ConversationStore) -> None:
        """A turn whose id is stored is not added again, so that an append with an unknown outcome can be retried."""
        await store.append("c", turn("1", "first", topic="a"), tenant="t")
        await store.append("c", turn("2", "second", topic="b"), tenant="t")
        await store.append("d", turn("1", "other"), tenant="t")
        before = await store.get("c", tenant="t")
        await store.append("c", turn("1", "again", topic="c"), tenant="t")
        expect(await _texts(store, "c"), ["first", "second"], "a turn that is there was added again or replaced")
        expect(await store.get("c", tenant="t"), before, "adding it again changes nothing")
        first = (await store.list(tenant="t"))[0].id
        require(first == "d", "adding it again is not a use of the conversation: it must not come first in list")
        expect(await _texts(store, "d"), ["other"], "turns of two conversations may have one id")

    @law()
    async def test_a_conversation_tells_about_itself(self, store: ConversationStore) -> None:
        """Title and start are of its first turn, topic and last use of its last; get and list agree."""
        first = turn("1", "What is\nthis?", topic="old", at="2026-01-01T00:00:00.000+00:00")
        await store.append("c", first, tenant="t")
        await store.append("c", turn("2", topic="new", at="2026-01-02T00:00:00.000+00:00"), tenant="t")
        info = await store.get("c", tenant="t")
        for field, expected in (
            ("id", "c"),
            ("title", "What is this?"),
            ("turns", 2),
            ("topic", "new"),
            ("started_at", first.at),
            ("used_at", "2026-01-02T00:00:00.000+00:00"),
        ):
            expect(getattr(info, field), expected, field)
        (listed,) = await store.list(tenant="t")
        require(listed == info, f"list says {listed}, and get {info}")
        await store.append("d", turn("1"), tenant="t")
        timed = await store.get("d", tenant="t")
        require(timed.started_at and timed.used_at, f"a turn without a time is given that of now, got {timed}")

    @law()
    async def test_a_conversation_tells_how_its_last_turn_ended(self, store: ConversationStore) -> None:
        """Its status is that of its last turn, "done", "cancelled" or "failed"; get and list agree."""
        ends: tuple[TurnStatus, ...] = ("cancelled", "done", "failed", "done", "failed", "cancelled")
        for number, status in enumerate(ends):
            await store.append("c", attrs.evolve(turn(str(number)), status=status), tenant="t")
            await store.append("other", attrs.evolve(turn(str(number)), status="done"), tenant="t")
            expect((await store.get("c", tenant="t")).status, status, "the status of the last turn")
            listed = {info.id: info.status for info in await store.list(tenant="t")}
            expected = {"c": status, "other": "done"}
            require(listed == expected, f"the last turns are {expected}, list says {listed}")
        await store.append("c", attrs.evolve(turn("0"), status="done"), tenant="t")
        came = (await store.get("c", tenant="t")).status
        require(came == "cancelled", f"adding a turn again changes nothing, also not the status: got {came}")

    @law()
    async def test_a_conversation_adds_up_what_its_turns_cost(self, store: ConversationStore) -> None:
        """The sum is exact and counts unpriced turns; it is None in a store that adds nothing up.

        An absurd cost does not prevent a turn from being stored: services miscount.
        """
        for id, rate, tokens in (("a", "0.000001", 1), ("b", "2.5", 1_000_000), ("b", "2.5", 1_000_000)):
            await store.append("c", paid_turn(id, rate, tokens), tenant="t")
        cost = (await store.get("c", tenant="t")).cost
        if cost is not None:
            expected = "2.500000000001"
            require(str(cost.amount) == expected and cost.is_complete, f"the cost is {expected}, got {cost!r}")
            await store.append("c", paid_turn("unpriced", None, 1), tenant="t")
            (info,) = await store.list(tenant="t")
            problem = f"with an unpriced turn the cost is at least {expected}, got {info.cost!r}"
            require(info.cost is not None and str(info.cost.amount) == expected and info.cost.unpriced, problem)
        absurd = [(f"{n}", "1000000", 10**n) for n in (6, 9, 12, 20, 400)] + [("9" * 5, "9000000000", 10**8)]
        for id, rate, tokens in absurd:
            for again in range(20):
                await store.append("c", paid_turn(f"{id}-{again}", rate, tokens), tenant="t")
        turns, cost = await store.turns("c", tenant="t", last=1), (await store.get("c", tenant="t")).cost
        require(turns[0].id.startswith("99999"), "a turn of an absurd cost is kept")
        if cost is not None:
            require(cost.amount is not None and cost.amount > 1_000_000, f"what is known is added up, got {cost!r}")

    @law()
    async def test_the_last_used_comes_first(self, store: ConversationStore) -> None:
        """The order is that of the appends, not of the turns' times, for clocks go back; nothing else is a use."""
        for id, at in (("a", "2030"), ("b", "2020"), ("c", "2025")):
            await store.append(id, turn("1", at=f"{at}-01-01T00:00:00+00:00"), tenant="t")
        await store.append("b", turn("2", at="2010-01-01T00:00:00+00:00"), tenant="t")
        await store.rename("a", "Another", tenant="t")
        await store.turns("a", tenant="t")
        await store.get("a", tenant="t")
        expect(await _ids(store), ["b", "c", "a"], "list gives the last used first")

    @law()
    async def test_pages_follow_each_other(self, store: ConversationStore) -> None:
        """At most limit at a time, each page from behind the conversation ``before``: each comes once."""
        for id in ("e", "a", "d", "b", "c", "f", "g"):
            await store.append(id, turn("1"), tenant="t")
        await store.append("d", turn("2"), tenant="t")
        expected = ["d", "g", "f", "c", "b", "a", "e"]
        for limit in (1, 2, 3, 7, 100):
            came: list[str] = []
            for _ in range(len(expected) + 1):
                page = await _ids(store, limit=limit, before=came[-1] if came else None)
                require(len(page) <= limit, f"limit={limit} gave {len(page)} conversations")
                came += page
                if not page:
                    break
            require(came == expected, f"pages of {limit} give {expected}, got {came}")
        require(await _ids(store, limit=0) == [], "limit=0 gives none")

    @law("search")
    async def test_pages_of_a_search_follow_each_other(self, store: ConversationStore) -> None:
        """With search, limit counts what is found."""
        for n in range(6):
            await store.append(f"c{n}", turn("1", "odd" if n % 2 else "even"), tenant="t")
        expect(await _ids(store, search="odd", limit=2), ["c5", "c3"], "the first two that are found")
        expect(await _ids(store, search="odd", limit=2, before="c3"), ["c1"], "the next page")

    @law("search")
    async def test_a_search_finds_all_words_in_one_place(self, store: ConversationStore) -> None:
        """Words match in the texts of one turn, or in the title: in any order, any case, inside longer words."""
        await store.append("a", turn("1", "Which STRASSE is quiet?", "One in München."), tenant="t")
        answer = AssistantMessage(parts=(ReasoningPart(text="thought"), TextPart(text="Right.")))
        tool = ToolMessage(tool_call_id="x", name="lookup", content="result")
        second = ConversationTurn(id="2", messages=(UserMessage(content="Thanks"), tool, answer))
        await store.append("a", second, tenant="t")
        await store.append("b", turn("1", "ΟΔΟΣ and house"), tenant="t")
        await store.rename("b", "Words of Greek", tenant="t")
        for words, expected, why in (
            ("quiet münchen", ["a"], "a message and its answer are one turn"),
            ("MÜNCHEN quiet WHICH", ["a"], "neither order nor case matters, also of ü"),
            ("straße", ["a"], "case is that of str.casefold: ß is ss"),
            ("οδος οδοσ", ["b"], "case is that of str.casefold: both small sigmas are one"),
            ("nche", ["a"], "a word occurs inside longer words too"),
            ("greek words", ["b"], "the title is searched"),
            ("words house", [], "all words are in one place: not some in the title and some in a turn"),
            ("quiet thanks", [], "all words are in one place: not some in one turn and some in another"),
            ("thought", [], "what a model thought is not searched"),
            ("result", [], "what a tool said is not searched"),
            ("house unheard", [], "every word must occur"),
            ("  ", ["b", "a"], "a search without a word finds all"),
            ("", ["b", "a"], "a search without a word finds all"),
        ):
            came = await _ids(store, search=words)
            require(came == expected, f"search={words!r} finds {expected}, got {came}: {why}")
        await store.delete("a", tenant="t")
        require(await _ids(store, search="quiet") == [], "what was deleted is found no more")

    @law("search")
    async def test_hostile_searches_are_only_words(self, store: ConversationStore) -> None:
        """Signs of patterns and of query languages, quotes, NUL, great lengths: text that occurs or does not."""
        for n, sample in enumerate(_SAID):
            await store.append(f"c{n}", turn("1", sample, "Plain."), tenant="t")
        for hostile in _HOSTILE:
            words = storable(hostile).casefold().split()
            texts = {f"c{n}": f"{sample}\nPlain.".casefold() for n, sample in enumerate(_SAID)}
            expected = [id for id, text in reversed(texts.items()) if all(word in text for word in words)]
            with raising_only(what=f"search={show(hostile, 60)}"):
                came = await _ids(store, search=hostile)
            require(came == expected, f"search={show(hostile, 60)} finds {expected}, got {came}")

    @law()
    async def test_a_conversation_is_renamed(self, store: ConversationStore) -> None:
        """It has the new title, as flexchat.store.storable returns it, also after further turns, and no other has."""
        for id in ("c", "d"):
            await store.append(id, turn("1"), tenant="t")
        for title in ("Another title", "", "a\0b \ud83d", "'; --", "x" * 10_000):
            await store.rename("c", title, tenant="t")
            expect((await store.get("c", tenant="t")).title, storable(title), f"renamed {show(title, 60)}, its title")
        await store.rename("c", "Kept", tenant="t")
        await store.append("c", turn("2", "more"), tenant="t")
        titles = {i.id: i.title for i in await store.list(tenant="t")}
        require(titles == {"c": "Kept", "d": "Hello"}, f"the titles are Kept and Hello, got {titles}")

    @law()
    async def test_a_conversation_is_deleted(self, store: ConversationStore) -> None:
        """With all its turns; the others stay, and a new one under its id inherits nothing."""
        for id in ("c", "d"):
            await store.append(id, turn("1", f"first of {id}"), tenant="t")
            await store.append(id, turn("2"), tenant="t")
        await store.delete("c", tenant="t")
        await refused(store.get("c", tenant="t"), UnknownConversationError, "get of what was deleted")
        require(await _ids(store) == ["d"], f"one was deleted of two, list gives {await _ids(store)}")
        require(len(await store.turns("d", tenant="t")) == 2, "another conversation keeps its turns")
        await store.append("c", turn("1", "anew"), tenant="t")
        expect(await _texts(store, "c"), ["anew"], "a conversation that starts over has one turn")
        title = (await store.get("c", tenant="t")).title
        require(title == "anew", f"a conversation that starts over has a title of its own, got {title!r}")

    @law()
    async def test_an_unknown_conversation_is_an_error(self, store: ConversationStore) -> None:
        """Turns, get, rename, delete, and list behind it raise UnknownConversationError, and make none."""
        for state in ("in an empty store", "beside another"):
            for method, ask in _asks(store, _NOWHERE, "t").items():
                text = str(await refused(ask(), UnknownConversationError, f"{method} {state}"))
                require(_NOWHERE in text, f"{method}: the error names the conversation: {show(text)}")
                require(_NOWHERE not in await _ids(store), f"{method} of an unknown conversation makes one")
            await store.append("c", turn("1"), tenant="t")

    @law()
    async def test_tenants_never_meet(self, store: ConversationStore) -> None:
        """With equal ids, each has its own data: no method reads, finds, changes or deletes what is another's."""
        await store.append("c", turn("1", "red secret"), tenant="red")
        await store.append("only-red", turn("1", "red secret"), tenant="red")
        for method, ask in _asks(store, "c", "blue").items():
            await refused(ask(), UnknownConversationError, f"{method} of another tenant's conversation")
        require(await _ids(store, tenant="blue") == [], "list shows another tenant's conversations")
        await store.append("c", turn("1", "blue"), tenant="blue")
        for tenant, expected in (("red", "red secret"), ("blue", "blue")):
            texts = await _texts(store, "c", tenant)
            require(texts == [expected], f"under one id each tenant has its own turns: {tenant} has {texts}")
            title = (await store.get("c", tenant=tenant)).title
            require(title == expected, f"under one id each tenant has its own title: {tenant} has {title!r}")
        before = store.list(tenant="blue", before="only-red")
        await refused(before, UnknownConversationError, "list behind another tenant's conversation")
        if "search" in self.supports:
            ids = await _ids(store, tenant="blue", search="secret")
            require(ids == [], f"a search finds another tenant's conversations: {ids}")
        await store.rename("c", "Blue's", tenant="blue")
        await store.delete("c", tenant="blue")
        infos = [(i.id, i.title, i.turns) for i in await store.list(tenant="red")]
        wanted_infos = [("only-red", "red secret", 1), ("c", "red secret", 1)]
        require(infos == wanted_infos, f"what one tenant renames and deletes changed another's: {infos}")

    @law()
    async def test_names_are_never_bent(self, store: ConversationStore) -> None:
        """Any id or tenant is stored unchanged or refused with StorageError: altered ones could collide."""
        await store.append("c", turn("c", "c"), tenant="c")
        tried = [*((name, True) for name in _PLAIN_NAMES), *((name, False) for name in _HARD_NAMES)]
        names = ["c", *[name for name, must in tried if await self._takes(store, name, must=must)]]
        for tenant in names:
            came = await _ids(store, tenant=tenant)
            expected = sorted(names) if tenant == "c" else [tenant]
            require(sorted(came) == expected, f"tenant {show(tenant, 40)} has {show(expected)}, got {show(came)}")
            for id in came:
                expect(await _texts(store, id, tenant), [id], f"conversation {show(id, 40)}: the texts of its turns")
        expect({t.id for t in await store.turns("c", tenant="c")}, {"c"}, "turns have come together")

    async def _takes(self, store: ConversationStore, name: str, *, must: bool) -> bool:
        """Use a name for a tenant, a conversation and a turn; return whether the store accepts it."""
        accepted = []
        for id, tenant in ((name, name), (name, "c")):
            for method, ask in _asks(store, id, tenant).items():
                what = f"{method}, for the id {show(id, 40)} of tenant {show(tenant, 40)}, which nobody has used,"
                await refused(ask(), (UnknownConversationError, StorageError), what)
            try:
                with raising_only(StorageError, what=f"the name {show(name, 40)}"):
                    await store.append(id, turn(id, id), tenant=tenant)
                accepted.append(True)
            except StorageError:
                accepted.append(False)
        require(accepted[0] == accepted[1], f"{show(name, 40)} must name a tenant and a conversation, or neither")
        require(accepted[0] or not must, f"{show(name, 40)} is a name like another, and must be taken")
        return accepted[0]

    @law()
    async def test_what_cannot_be_written_is_refused(self, store: ConversationStore) -> None:
        """A turn that is no JSON data is a StorageError, and nothing of it is kept."""
        await refused(store.append("new", unwritable_turn(), tenant="t"), StorageError, "a turn that is no JSON data")
        require(await _ids(store) == [], "a turn that was refused began a conversation")
        await store.append("c", turn("1"), tenant="t")
        before = await store.get("c", tenant="t")
        await refused(store.append("c", unwritable_turn(), tenant="t"), StorageError, "a turn that is no JSON data")
        require(await store.get("c", tenant="t") == before, "a turn that was refused changed the conversation")

    @law()
    async def test_appends_side_by_side_keep_every_turn(self, store: ConversationStore) -> None:
        """Many at once, into one conversation and several, some of them twice: each is kept once."""
        turns = [(f"c{n % 3}", turn(f"t{n}", f"message {n}")) for n in range(30)]
        await asyncio.gather(*(store.append(id, one, tenant="t") for id, one in [*turns, *turns[:9]]))
        for conversation in ("c0", "c1", "c2"):
            expected = {one.id for id, one in turns if id == conversation}
            await _check_turns(store, conversation, expected, "appended side by side")

    @law()
    async def test_an_append_that_is_stopped_leaves_no_half(self, store: ConversationStore) -> None:
        """Whoever stops waiting leaves a whole turn or none, and a store that can be used."""
        for steps in (0, 1, 2, 5, 20):
            work = asyncio.ensure_future(store.append(f"c{steps}", turn("stopped"), tenant="t"))
            for _ in range(steps):
                await asyncio.sleep(0)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            await store.append(f"c{steps}", turn("last"), tenant="t")
            came = await _turn_ids(store, f"c{steps}")
            require(came[-1:] == ["last"], f"the turn that was added last is the last, got {came}")
            await _check_turns(store, f"c{steps}", {"last", *came[:-1]}, "after an append that was stopped")
            require(set(came) <= {"last", "stopped"}, f"there are turns nobody added: {came}")

    @law("history")
    async def test_a_history_has_what_later_turns_read(self, store: ConversationStore) -> None:
        """Ids, messages, topics and replay of all turns, as turns returns them."""
        for one in hard_turns():
            await store.append("c", one, tenant="t")
        turns = await store.turns("c", tenant="t")
        history = await _history(store, "c")
        require(history.is_whole, "without a version, the history is whole")
        require(len(history.turns) == len(turns), f"{len(turns)} turns have {len(history.turns)} in their history")
        for one, came in zip(turns, history.turns, strict=True):
            for field in attrs.fields(HistoryTurn):
                was, now = getattr(one, field.name), getattr(came, field.name)
                require(was == now, f"turn {one.id}: {field.name} is {show(was)}, in the history {show(now)}")

    @law("history")
    async def test_a_history_continues_from_a_version(self, store: ConversationStore) -> None:
        """After a version come the turns added since, none if there are none, and each once."""
        for id in ("1", "2"):
            await store.append("c", turn(id), tenant="t")
        first = await _history(store, "c")
        again = await _history(store, "c", first.version)
        require(not again.is_whole, "after the newest version, the history is not whole")
        require(not again.turns, f"after the newest version there is no turn, got {_ids_of(again)}")
        for id in ("3", "2", "4"):  # 2 is there already, and is not added again
            await store.append("c", turn(id), tenant="t")
            await store.append("d", turn(id), tenant="t")
            await store.rename("c", f"after {id}", tenant="t")
        for version in (first.version, again.version):
            new = await _history(store, "c", version)
            require(not new.is_whole, "a conversation that has only grown is continued, not read again")
            require(_ids_of(new) == ["3", "4"], f"after the version of 1 and 2 come 3 and 4, got {_ids_of(new)}")
        last = await _history(store, "c", new.version)
        require(not last.turns, f"after the newest version there is no turn, got {_ids_of(last)}")

    @law("history")
    async def test_a_version_is_of_one_conversation(self, store: ConversationStore) -> None:
        """Of a deleted conversation, another one, or none: the history is whole, as without a version."""
        for id, tenant in (("c", "t"), ("d", "t"), ("c", "u")):
            for n in ("1", "2"):
                await store.append(id, turn(n, f"{n} of {id} of {tenant}"), tenant=tenant)
        versions = {
            "another conversation": (await _history(store, "d")).version,
            "another tenant": (await store.history("c", tenant="u")).version,  # type: ignore[attr-defined]
            "a conversation deleted since": (await _history(store, "c")).version,
            **{f"no version: {show(text)}": text for text in ("", " ", "1", "x", "\0", "1 1", "-1", "9" * 40)},
        }
        await store.delete("c", tenant="t")
        for n in ("1", "2", "3"):
            await store.append("c", turn(n, f"anew {n}"), tenant="t")
        expected = [t.messages for t in await store.turns("c", tenant="t")]
        for what, version in versions.items():
            came = await _history(store, "c", version)
            messages = [t.messages for t in came.turns]
            require(came.is_whole and messages == expected, f"version of {what}: the history must be whole, and is not")

    @law("history")
    async def test_an_unknown_conversation_has_no_history(self, store: ConversationStore) -> None:
        """It is an UnknownConversationError with and without a version, even for one that was deleted."""
        await refused(_history(store, _NOWHERE), UnknownConversationError, "history in an empty store")
        await store.append("c", turn("1"), tenant="t")
        version = (await _history(store, "c")).version
        await refused(_history(store, _NOWHERE, version), UnknownConversationError, "history after a version")
        await store.delete("c", tenant="t")
        for after in (None, version):
            await refused(_history(store, "c", after), UnknownConversationError, "history of what was deleted")

    @law("history", "shared")
    async def test_a_history_has_the_turns_of_other_stores(self, folder: Path) -> None:
        """What another store of the place adds is seen after a version, and so is what it deletes."""
        async with self.opened(folder) as one, self.opened(folder) as other:
            await one.append("c", turn("1"), tenant="t")
            version = (await _history(one, "c")).version
            await other.append("c", turn("2"), tenant="t")
            new = await _history(one, "c", version)
            problem = f"after 1 comes what another store added, 2; got {_ids_of(new)}"
            require(not new.is_whole and _ids_of(new) == ["2"], problem)
            await other.delete("c", tenant="t")
            await refused(_history(one, "c", new.version), UnknownConversationError, "history of what is deleted")
            await other.append("c", turn("1", "anew"), tenant="t")
            anew = await _history(one, "c", version)
            problem = "a conversation that another store deleted and started again is read whole"
            require(anew.is_whole and [t.messages for t in anew.turns] == [turn("1", "anew").messages], problem)

    @law("durable")
    async def test_what_was_kept_is_there_again(self, folder: Path) -> None:
        """A store that is closed and opened again has everything, in the same order, and goes on from there."""
        before: list[Any] = []
        for n in range(3):
            async with self.opened(folder) as store:
                came = await _everything(store)
                require(came == before, f"opened again, the store has {show(came)}, and had {show(before)}")
                await store.append("old", turn(f"t{n}"), tenant="t")
                await store.append(f"c{n}", turn("1"), tenant="t")
                await store.rename(f"c{n}", f"Title {n}", tenant="t")
                if n:
                    await store.delete(f"c{n - 1}", tenant="t")
                before = await _everything(store)

    @law("shared")
    async def test_stores_of_one_place_share_it(self, folder: Path) -> None:
        """What one's method returned from, the other sees; what both append at once is kept."""
        async with self.opened(folder) as one, self.opened(folder) as other:
            await one.append("c", turn("1"), tenant="t")
            expect(await _turn_ids(other, "c"), ["1"], "what one store keeps another sees at once")
            work = [
                s.append("c", turn(f"{name}{n}"), tenant="t")
                for name, s in (("a", one), ("b", other))
                for n in range(5)
            ]
            await asyncio.gather(*work)
            expected = {"1", *(f"{name}{n}" for name in "ab" for n in range(5))}
            for store in (one, other):
                await _check_turns(store, "c", expected, "appended by two stores at once")
            await other.delete("c", tenant="t")
            await refused(one.get("c", tenant="t"), UnknownConversationError, "get of what another store deleted")

    @law()
    async def test_a_store_that_is_never_used_is_closed(self, folder: Path) -> None:
        """Making one opens nothing yet, so that closing it at once does no harm."""
        place = folder / "new"
        await self.make_store(place).aclose()
        require(not place.exists(), "making a store makes files, although nothing was kept")


def _asks(store: ConversationStore, id: str, tenant: str) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return every method that needs a conversation which is there, by name."""
    return {
        "turns": lambda: store.turns(id, tenant=tenant),
        "turns(last=0)": lambda: store.turns(id, tenant=tenant, last=0),
        "get": lambda: store.get(id, tenant=tenant),
        "rename": lambda: store.rename(id, "x", tenant=tenant),
        "delete": lambda: store.delete(id, tenant=tenant),
        "list(before=…)": lambda: store.list(tenant=tenant, before=id),
    }


async def _ids(store: ConversationStore, *, tenant: str = "t", **rest: Any) -> list[str]:
    return [info.id for info in await store.list(tenant=tenant, **rest)]


async def _history(store: ConversationStore, id: str, after: str | None = None) -> ConversationHistory:
    history: ConversationHistory = await store.history(id, tenant="t", after=after)  # type: ignore[attr-defined]
    return history


def _ids_of(history: ConversationHistory) -> list[str]:
    return [one.id for one in history.turns]


async def _everything(store: ConversationStore) -> list[tuple[ConversationInfo, list[ConversationTurn]]]:
    return [(info, list(await store.turns(info.id, tenant="t"))) for info in await store.list(tenant="t")]


async def _check_turns(store: ConversationStore, conversation: str, expected: set[str], when: str) -> None:
    """Check that a conversation has these turns, each once, and knows how many they are."""
    came = await _turn_ids(store, conversation)
    expect(sorted(came), sorted(expected), f"{when}: the turns of {conversation}")
    counted = (await store.get(conversation, tenant="t")).turns
    require(counted == len(expected), f"{when}: {conversation} has {len(expected)} turns, get says {counted}")


async def _turn_ids(store: ConversationStore, id: str, last: int | None = None) -> list[str]:
    return [one.id for one in await store.turns(id, tenant="t", last=last)]


async def _texts(store: ConversationStore, id: str, tenant: str = "t") -> list[str]:
    """Return the user's text of each turn."""
    turns = await store.turns(id, tenant=tenant)
    return [next((m.content for m in one.messages if isinstance(m, UserMessage)), "") for one in turns]
