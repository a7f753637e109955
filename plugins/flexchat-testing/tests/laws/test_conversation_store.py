"""The laws of a conversation store hold for one made of plain dicts, and each catches a store that breaks it."""

import asyncio
import itertools
import unittest
from decimal import Decimal

import attrs
import pytest
from flexchat.store import (
    ConversationHistory,
    ConversationInfo,
    StorageError,
    UnknownConversationError,
    history_from_json,
    turn_from_json,
    turn_to_json,
)
from flexchat_sdk import ToolMessage, storable
from flexchat_testing import ConversationStoreConformance
from flexchat_testing.laws.law import laws_of

DISKS = {}
"""What a folder holds: stands for files."""
NUMBERS = itertools.count(1)
"""Of all turns that are kept anywhere."""
NOW = "2026-01-01T00:00:00.000+00:00"


class DictStore:
    """The reference: a right store, as plain as it can be. Conversations are in the order of their last use."""

    def __init__(self, folder):
        self.folder = folder
        self.kept = DISKS.setdefault(str(folder), {})
        self.numbers = DISKS.setdefault(f"{folder} numbers", {})

    def key(self, *names):
        if not all(names):
            raise StorageError("a name must not be empty")
        return names

    def found(self, tenant, id):
        if self.key(tenant, id) not in self.kept:
            raise UnknownConversationError(id)
        return self.kept[tenant, id]

    def written(self, turn):
        try:
            return turn_to_json(turn)
        except ValueError as error:
            raise StorageError(str(error)) from error

    async def append(self, conversation, turn, *, tenant):
        key, written = self.key(tenant, conversation), self.written(turn)
        self.key(turn.id)
        info, turns = self.kept.get(key) or (self.begun(conversation, turn), {})
        if turn.id not in turns:
            turns = turns | {turn.id: written}
            self.numbers[tenant, conversation, turn.id] = str(next(NUMBERS))
            info = attrs.evolve(
                info, turns=len(turns), topic=storable(turn.topic), used_at=turn.at or NOW, status=turn.status
            )
            self.kept.pop(key, None)
            self.kept[key] = (attrs.evolve(info, cost=self.added(info.cost, turn.cost)), turns)

    def added(self, cost, more):
        return more if cost is None else cost + more

    def begun(self, id, turn):
        return ConversationInfo(id=id, title=turn.title, turns=0, started_at=turn.at or NOW, used_at="")

    async def turns(self, conversation, *, tenant, last=None):
        turns = [turn_from_json(written) for written in self.found(tenant, conversation)[1].values()]
        return turns if last is None else turns[max(0, len(turns) - last) :]

    async def history(self, conversation, *, tenant, after=None):
        turns = self.found(tenant, conversation)[1]
        numbers = [self.numbers[tenant, conversation, id] for id in turns]
        start = numbers.index(after) + 1 if after in numbers else 0
        read = history_from_json([*turns.values()][start:])
        return ConversationHistory(turns=read, version=numbers[-1], is_whole=not start)

    async def get(self, conversation, *, tenant):
        return self.found(tenant, conversation)[0]

    async def list(self, *, tenant, search=None, limit=50, before=None):
        self.key(tenant)
        infos = [info for (whose, _), (info, _) in reversed(self.kept.items()) if whose == tenant]
        if before is not None:
            infos = infos[infos.index(self.found(tenant, before)[0]) + 1 :]
        words = self.words(search or "")
        return [info for info in infos if not words or self.fits(words, info, self.texts(tenant, info.id))][:limit]

    def words(self, search):
        return storable(search).casefold().split()

    def texts(self, tenant, id):
        return [turn_from_json(written).text for written in self.kept[tenant, id][1].values()]

    def fits(self, words, info, texts):
        return any(all(word in text.casefold() for word in words) for text in (info.title, *texts))

    async def rename(self, conversation, title, *, tenant):
        info, turns = self.found(tenant, conversation)
        self.kept[tenant, conversation] = (attrs.evolve(info, title=storable(title)), turns)

    async def delete(self, conversation, *, tenant):
        self.found(tenant, conversation)
        del self.kept[tenant, conversation]

    async def aclose(self):
        pass


class Good(ConversationStoreConformance):
    supports = frozenset(ConversationStoreConformance.capabilities)
    plugin = "flexchat.plugin"
    store = DictStore

    def make_store(self, folder):
        return self.store(folder)


class SortsTurns(DictStore):
    async def turns(self, conversation, **rest):
        return sorted(await super().turns(conversation, **rest), key=lambda t: t.id)


class ZeroIsAll(DictStore):
    async def turns(self, conversation, *, tenant, last=None):
        return (await super().turns(conversation, tenant=tenant))[-last if last else 0 :]


class KeepsStorableText(DictStore):
    def written(self, turn):
        said = [attrs.evolve(m, content=storable(m.content)) if m.role == "user" else m for m in turn.messages]
        return super().written(attrs.evolve(turn, messages=tuple(said)))


class WholeNumbers(DictStore):
    def written(self, turn):
        return super().written(turn).replace("1.0]", "1]")


class Repeats(DictStore):
    async def append(self, conversation, turn, *, tenant):
        old = self.kept.get((tenant, conversation), (None, {}))[1]
        if turn.id in old:
            self.kept[tenant, conversation] = (self.kept[tenant, conversation][0], {**old, turn.id: self.written(turn)})
        await super().append(conversation, turn, tenant=tenant)


class CountsEveryAppendAsUse(DictStore):
    async def append(self, conversation, turn, *, tenant):
        await super().append(conversation, turn, tenant=tenant)
        self.kept[tenant, conversation] = self.kept.pop((tenant, conversation))


class TitlesTheLast(DictStore):
    async def append(self, conversation, turn, *, tenant):
        await super().append(conversation, turn, tenant=tenant)
        await self.rename(conversation, turn.title, tenant=tenant)


class CountsGapsAsNothing(DictStore):
    def added(self, cost, more):
        return attrs.evolve(super().added(cost, attrs.evolve(more, amount=more.amount or Decimal(0))), unpriced=())


class AddsFloats(DictStore):
    def added(self, cost, more):
        cost = super().added(cost, more)
        return cost if cost.amount is None else attrs.evolve(cost, amount=Decimal(repr(round(float(cost.amount), 6))))


class Overflows(DictStore):
    def added(self, cost, more):
        if more.amount is not None and more.amount * 10**12 >= 2**63:
            raise StorageError("too large")
        return super().added(cost, more)


class ForgetsHowTurnsEnded(DictStore):
    def written(self, turn):
        return super().written(attrs.evolve(turn, status="done", error=""))


class TellsNoStatus(DictStore):
    async def append(self, conversation, turn, *, tenant):
        await super().append(conversation, turn, tenant=tenant)
        info, turns = self.kept[tenant, conversation]
        self.kept[tenant, conversation] = (attrs.evolve(info, status="done"), turns)


class TellsTheFirstStatus(DictStore):
    async def append(self, conversation, turn, *, tenant):
        status = (await self.get(conversation, tenant=tenant)).status if (tenant, conversation) in self.kept else None
        await super().append(conversation, turn, tenant=tenant)
        info, turns = self.kept[tenant, conversation]
        self.kept[tenant, conversation] = (attrs.evolve(info, status=status or turn.status), turns)


class DropsThePhases(DictStore):
    def written(self, turn):
        return super().written(attrs.evolve(turn, phases=()))


class SortsByTime(DictStore):
    async def list(self, *, tenant, **rest):
        return sorted(await super().list(tenant=tenant, **rest), key=lambda i: i.used_at, reverse=True)


class RenamingIsUse(DictStore):
    async def rename(self, conversation, title, *, tenant):
        await super().rename(conversation, title, tenant=tenant)
        self.kept[tenant, conversation] = self.kept.pop((tenant, conversation))


class PagesOverlap(DictStore):
    async def list(self, *, tenant, before=None, limit=50, **rest):
        infos = await super().list(tenant=tenant, limit=1000, **rest)
        start = next((n for n, info in enumerate(infos) if info.id == before), 0)
        return infos[start : start + limit]


class LimitBeforeSearch(DictStore):
    async def list(self, *, tenant, search=None, **rest):
        found = {info.id for info in await super().list(tenant=tenant, search=search, limit=1000)}
        return [info for info in await super().list(tenant=tenant, **rest) if info.id in found]


class WordsAnywhere(DictStore):
    def fits(self, words, info, texts):
        return all(any(word in text.casefold() for text in (info.title, *texts)) for word in words)


class WholeWords(DictStore):
    def fits(self, words, info, texts):
        return any(set(words) <= set(text.casefold().split()) for text in (info.title, *texts))


class LowersAscii(DictStore):
    def fits(self, words, info, texts):
        return any(all(word in text.lower() for word in words) for text in (info.title, *texts))


class SearchesTools(DictStore):
    def texts(self, tenant, id):
        turns = [turn_from_json(written) for written in self.kept[tenant, id][1].values()]
        return [" ".join([t.text, *(m.content for m in t.messages if isinstance(m, ToolMessage))]) for t in turns]


class Patterns(DictStore):
    def words(self, search):
        return [word for word in super().words(search) if word != "%"]


class SearchRaises(DictStore):
    def words(self, search):
        if search.count('"') % 2:
            raise ValueError("unterminated string")
        return super().words(search)


class RenamesAll(DictStore):
    async def rename(self, conversation, title, *, tenant):
        await super().rename(conversation, title, tenant=tenant)
        for id in [id for whose, id in self.kept if whose == tenant]:
            await super().rename(id, title, tenant=tenant)


class LeavesTurns(DictStore):
    async def delete(self, conversation, *, tenant):
        info, turns = self.found(tenant, conversation)
        self.kept[tenant, "\nbin"] = (info, turns)
        await super().delete(conversation, tenant=tenant)

    async def append(self, conversation, turn, *, tenant):
        left = self.kept.pop((tenant, "\nbin"), None)
        if left is not None and conversation == "c":
            self.kept[tenant, conversation] = left
        await super().append(conversation, turn, tenant=tenant)

    async def list(self, **rest):
        return [info for info in await super().list(**rest) if (rest["tenant"], info.id) in self.kept]


class DeletingIsQuiet(DictStore):
    async def delete(self, conversation, *, tenant):
        if (tenant, conversation) in self.kept:
            await super().delete(conversation, tenant=tenant)


class UnknownIsEmpty(DictStore):
    async def turns(self, conversation, *, tenant, last=None):
        return [] if last == 0 else await super().turns(conversation, tenant=tenant, last=last)


class RaisesKeyError(DictStore):
    async def get(self, conversation, *, tenant):
        return self.kept[tenant, conversation][0]


class SearchesEveryTenant(DictStore):
    async def list(self, *, tenant, search=None, **rest):
        if search is None:
            return await super().list(tenant=tenant, **rest)
        pages = [
            await super(SearchesEveryTenant, self).list(tenant=t, search=search) for t in {t for t, _ in self.kept}
        ]
        return [info for page in pages for info in page]


class DeletesForAll(DictStore):
    async def delete(self, conversation, *, tenant):
        await super().delete(conversation, tenant=tenant)
        for key in [key for key in self.kept if key[1] == conversation]:
            del self.kept[key]


class JoinsNames(DictStore):
    def key(self, *names):
        return super().key(*map(storable, names))

    async def append(self, conversation, turn, *, tenant):
        await super().append(storable(conversation), turn, tenant=storable(tenant))

    def found(self, tenant, id):
        return super().found(storable(tenant), storable(id))


class TakesNoStrangeTenant(DictStore):
    def key(self, tenant, *names):
        if names and not tenant.isalnum():
            raise StorageError("a tenant has letters and digits")
        return super().key(tenant, *names)


class BeginsBeforeItWrites(DictStore):
    async def append(self, conversation, turn, *, tenant):
        self.kept.setdefault(self.key(tenant, conversation), (self.begun(conversation, turn), {}))
        await super().append(conversation, turn, tenant=tenant)


class LosesOthers(DictStore):
    async def append(self, conversation, turn, *, tenant):
        before = self.kept.get((tenant, conversation))
        await asyncio.sleep(0)
        self.kept.pop((tenant, conversation), None)
        if before is not None:
            self.kept[tenant, conversation] = before
        await super().append(conversation, turn, tenant=tenant)


class CountsFirst(DictStore):
    async def append(self, conversation, turn, *, tenant):
        info, turns = self.kept.get((tenant, conversation)) or (self.begun(conversation, turn), {})
        self.kept[tenant, conversation] = (attrs.evolve(info, turns=len(turns) + 1), turns | {"half": "{}"})
        await asyncio.sleep(0)
        self.kept[tenant, conversation] = (info, turns)
        await super().append(conversation, turn, tenant=tenant)

    async def turns(self, conversation, *, tenant, last=None):
        self.found(tenant, conversation)[1].pop("half", None)
        return await super().turns(conversation, tenant=tenant, last=last)


class Forgets(DictStore):
    async def aclose(self):
        self.kept.clear()


class ReadsWhenItOpens(DictStore):
    def __init__(self, folder):
        super().__init__(folder)
        self.kept = dict(self.kept)


class MakesFiles(DictStore):
    def __init__(self, folder):
        super().__init__(folder)
        folder.mkdir(exist_ok=True)


class RemembersNoTopics(DictStore):
    async def history(self, conversation, **rest):
        history = await super().history(conversation, **rest)
        return attrs.evolve(history, turns=tuple(attrs.evolve(t, topic="") for t in history.turns))


class ReadsAllAgain(DictStore):
    async def history(self, conversation, *, tenant, after=None):
        return await super().history(conversation, tenant=tenant)


class CountsTurns(DictStore):
    async def history(self, conversation, *, tenant, after=None):
        history = await super().history(conversation, tenant=tenant)
        start = int(after) if after and after.isdecimal() and int(after) <= len(history.turns) else 0
        version = str(len(history.turns))
        return attrs.evolve(history, turns=history.turns[start:], version=version, is_whole=not start)


class NothingIsEmpty(DictStore):
    async def history(self, conversation, *, tenant, after=None):
        if (tenant, conversation) not in self.kept:
            return ConversationHistory(turns=(), version="", is_whole=True)
        return await super().history(conversation, tenant=tenant, after=after)


class RemembersHistories(DictStore):
    async def history(self, conversation, *, tenant, after=None):
        if after is None or not hasattr(self, "read"):
            self.read = await super().history(conversation, tenant=tenant, after=after)
            return self.read
        return attrs.evolve(self.read, turns=(), is_whole=False)


FLAWS = (
    ("test_turns_come_back_in_their_order", SortsTurns, "got ['t1', 't10'"),
    ("test_turns_come_back_in_their_order", ZeroIsAll, "last=0: expected []"),
    ("test_turns_come_back_whole", KeepsStorableText, "came back as"),
    ("test_turns_come_back_whole", WholeNumbers, "came back changed"),
    ("test_turns_come_back_whole", ForgetsHowTurnsEnded, "turn stopped: status was"),
    ("test_turns_come_back_whole", DropsThePhases, "turn everything: phases was"),
    ("test_a_conversation_tells_how_its_last_turn_ended", TellsNoStatus, "expected 'cancelled', got 'done'"),
    ("test_a_conversation_tells_how_its_last_turn_ended", TellsTheFirstStatus, "expected 'done', got 'cancelled'"),
    ("test_a_turn_is_added_once", Repeats, "added again or replaced"),
    ("test_a_turn_is_added_once", CountsEveryAppendAsUse, "not a use of the conversation"),
    ("test_a_conversation_tells_about_itself", TitlesTheLast, "title: expected 'What is this?'"),
    ("test_the_last_used_comes_first", SortsByTime, "the last used first: expected"),
    ("test_the_last_used_comes_first", RenamingIsUse, "got ['a', 'b', 'c']"),
    ("test_pages_follow_each_other", PagesOverlap, "pages of 1 give"),
    ("test_pages_of_a_search_follow_each_other", LimitBeforeSearch, "got ['c5']"),
    (
        "test_a_conversation_adds_up_what_its_turns_cost",
        CountsGapsAsNothing,
        "with an unpriced turn the cost is at least",
    ),
    ("test_a_conversation_adds_up_what_its_turns_cost", AddsFloats, "the cost is 2.500000000001, got"),
    ("test_a_conversation_adds_up_what_its_turns_cost", Overflows, "too large"),
    ("test_a_search_finds_all_words_in_one_place", WordsAnywhere, "not some in the title and some in a turn"),
    ("test_a_search_finds_all_words_in_one_place", WholeWords, "search='quiet münchen' finds ['a'], got []"),
    ("test_a_search_finds_all_words_in_one_place", LowersAscii, "both small sigmas are one"),
    ("test_a_search_finds_all_words_in_one_place", SearchesTools, "what a tool said is not searched"),
    ("test_hostile_searches_are_only_words", Patterns, "search='%' finds ['c0'], got"),
    ("test_hostile_searches_are_only_words", SearchRaises, "raised ValueError: unterminated"),
    ("test_a_conversation_is_renamed", RenamesAll, "the titles are Kept and Hello"),
    ("test_a_conversation_is_deleted", LeavesTurns, "starts over has one turn"),
    ("test_an_unknown_conversation_is_an_error", DeletingIsQuiet, "delete in an empty store must raise"),
    ("test_an_unknown_conversation_is_an_error", UnknownIsEmpty, "turns(last=0) in an empty store must raise"),
    ("test_an_unknown_conversation_is_an_error", RaisesKeyError, "raised KeyError, not UnknownConversationError"),
    ("test_tenants_never_meet", SearchesEveryTenant, "finds another tenant's conversations"),
    ("test_tenants_never_meet", DeletesForAll, "deletes changed another's"),
    ("test_names_are_never_bent", JoinsNames, "which nobody has used"),
    ("test_names_are_never_bent", TakesNoStrangeTenant, "or neither"),
    ("test_what_cannot_be_written_is_refused", BeginsBeforeItWrites, "began a conversation"),
    ("test_appends_side_by_side_keep_every_turn", LosesOthers, "appended side by side"),
    ("test_an_append_that_is_stopped_leaves_no_half", CountsFirst, "after an append that was stopped"),
    ("test_a_history_has_what_later_turns_read", RemembersNoTopics, "turn everything: topic is"),
    ("test_a_history_continues_from_a_version", ReadsAllAgain, "after the newest version, the history is not whole"),
    ("test_a_version_is_of_one_conversation", CountsTurns, "the history must be whole"),
    ("test_an_unknown_conversation_has_no_history", NothingIsEmpty, "history in an empty store must raise"),
    ("test_a_history_has_the_turns_of_other_stores", RemembersHistories, "what another store added, 2; got []"),
    ("test_what_was_kept_is_there_again", Forgets, "opened again, the store has []"),
    ("test_stores_of_one_place_share_it", ReadsWhenItOpens, "no conversation 'c'"),
    ("test_a_store_that_is_never_used_is_closed", MakesFiles, "makes files"),
)


@pytest.mark.parametrize("name", [name for name, _ in laws_of(Good)])
def test_a_store_of_plain_dicts_keeps_every_law(name):
    """What a law asks can be done, and easily."""
    getattr(Good(), name)()


@pytest.mark.parametrize(("name", "store", "words"), FLAWS)
def test_a_law_catches_a_store_that_breaks_it(name, store, words):
    """The verdict says what is wrong."""
    wrong = type("Wrong", (Good,), {"store": store})()

    with pytest.raises(Exception) as caught:
        getattr(wrong, name)()

    assert not isinstance(caught.value, unittest.SkipTest)
    assert words in str(caught.value)


@pytest.mark.slow
def test_a_module_that_loads_what_is_heavy_is_caught():
    """As in every kit."""
    wrong = type("Wrong", (Good,), {"plugin": "httpx"})()

    with pytest.raises(AssertionError, match="importing httpx imports httpx"):
        wrong.test_its_module_is_light()


def test_every_law_is_shown_to_catch_something():
    """A law that nothing can break says nothing."""
    own = {name for name, value in vars(ConversationStoreConformance).items() if getattr(value, "is_law", False)}

    assert own == {name for name, _, _ in FLAWS}
