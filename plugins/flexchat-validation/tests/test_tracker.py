"""The tracker: the specification's interface, honest about numbers, and about old files."""

import json
import os
import sqlite3
import subprocess
import sys

import attrs
import pytest
from flexchat import StorageError
from flexchat_validation import ModelValidationTracker, ValidationStore
from flexchat_validation.attempts import Attempt, ModelKey
from flexchat_validation.store import Run
from hypothesis import given
from hypothesis import strategies as st

M = "ollama/llama3.2:3b"


@pytest.fixture(params=["memory", "file"])
def tracker(request, tmp_path):
    """In memory, and over a database."""
    tracker = ModelValidationTracker(tmp_path / "v.db" if request.param == "file" else None)
    yield tracker
    tracker.close()


def test_a_success_is_counted_and_remembered(tracker):
    """TC-6, TC-94, TC-95."""
    record = tracker.record_success(M, {"query": "weather", "calls": 1})

    assert (record.model_id, record.tested, record.test_count, record.success_count) == (M, True, 1, 1)
    (entry,) = record.test_history
    assert entry == {"timestamp": record.last_tested, "success": True, "details": {"query": "weather", "calls": 1}}
    assert tracker.get_status(M) == record


def test_a_failure_is_counted_and_remembered(tracker):
    """TC-96."""
    record = tracker.record_failure(M, "no tool was called")

    assert (record.test_count, record.success_count, record.validated) == (1, 0, False)
    assert record.test_history[0] == {
        "timestamp": record.last_tested,
        "success": False,
        "error": "no tool was called",
    }


def test_one_success_validates_nobody(tracker):
    """Nor do four of five: what counts is what they prove (C4, T2)."""
    for _ in range(4):
        assert not tracker.record_success(M).validated
    record = tracker.record_failure(M, "no tool was called")

    assert (record.rate, record.verdict, record.validated) == (0.8, "undecided", False)
    assert not tracker.is_validated(M)


def test_enough_successes_validate_and_failures_take_it_back(tracker):
    """Always computed anew (C4)."""
    for _ in range(23):
        tracker.record_success(M)
    assert not tracker.is_validated(M)
    assert tracker.get_status(M).more == 1
    tracker.record_success(M)
    assert tracker.is_validated(M)
    for _ in range(5):
        tracker.record_failure(M, "wrong city")

    assert not tracker.is_validated(M)


def test_an_unknown_model_is_neither_tested_nor_validated(tracker):
    """TC-97: asking does not add it."""
    status = tracker.get_status("nobody/nothing").to_dict()

    assert {key: status[key] for key in ("model_id", "tested", "validated")} == {
        "model_id": "nobody/nothing",
        "tested": False,
        "validated": False,
    }
    assert (status["test_count"], status["last_tested"], status["test_history"]) == (0, None, [])
    assert not tracker.is_validated("nobody/nothing")
    assert tracker.get_all_validations() == []


def test_all_records_are_listed(tracker):
    """TC-98: in the order in which they were first tested."""
    tracker.record_success("b/1")
    tracker.record_failure("a/1", "x")
    tracker.record_success("b/1")

    assert [(r.model_id, r.test_count) for r in tracker.get_all_validations()] == [("b/1", 2), ("a/1", 1)]


def test_a_record_shows_the_last_fifty_and_counts_all(tracker):
    """History is kept, and shown within bounds (C15, DS-8)."""
    for number in range(60):
        tracker.record_success(M, number)
    record = tracker.get_status(M)

    assert record.test_count == 60
    assert [entry["details"] for entry in record.test_history] == [*range(10, 60)]


@pytest.mark.parametrize("error", [None, "", {"code": 1}, ["\ud800"], float("nan"), ValueError("x")])
def test_any_error_can_be_recorded(tracker, error):
    """Also one that is not JSON data."""
    record = tracker.record_failure(M, error)

    assert record.success_count == 0
    json.dumps(record.to_dict(), allow_nan=False).encode()


def test_errors_of_a_service_are_no_tests(tmp_path):
    """They say nothing of the model."""
    store = ValidationStore(tmp_path / "v.db")
    store.add_blocking([Attempt(id="1", key=ModelKey(model_id=M), outcome="error", at="x")])
    tracker = ModelValidationTracker(store)

    assert tracker.get_all_validations() == []
    assert not tracker.get_status(M).tested
    store.close()


def test_a_record_goes_stale_by_itself():
    """As soon as the model is another one: it is not validated, and says why."""
    now = {"digest": "1"}
    tracker = ModelValidationTracker(current=lambda id: ModelKey(model_id=id, digest=now["digest"]))
    for _ in range(24):
        tracker.record_success(M)
    assert tracker.is_validated(M)
    now["digest"] = "2"
    record = tracker.get_status(M)

    assert (record.validated, record.stale, record.verdict) == (False, True, "validated")
    assert record.stale_reasons == ("the model behind this name was replaced",)
    assert tracker.record_success(M).test_count == 1


def test_a_planned_run_counts_as_one_look_in_the_tracker_too(tmp_path):
    """The same verdict as in the report of the run."""
    store = ValidationStore(tmp_path / "v.db")
    key = ModelKey(model_id=M)
    attempts = [
        Attempt(
            id=str(n), key=key, outcome="passed", at="x", run="r", case="c", aspects={"right_tool": True}, repetition=n
        )
        for n in range(16)
    ]
    store.add_blocking(attempts, [Run(id="r", state="finished", models=(M,), cases=("c",), runs=16)])
    tracker = ModelValidationTracker(store)

    assert tracker.is_validated(M)
    assert tracker.get_status(M).test_history[0]["details"] == {"case": "c", "run": "r", "calls": 0}
    tracker.close()
    assert store.attempts_blocking()  # it was given, so it is still open
    store.close()


def test_what_was_recorded_is_there_for_another_tracker_at_once(tmp_path):
    """It saves after each test (T3)."""
    first, second = (ModelValidationTracker(tmp_path / "v.db") for _ in range(2))
    first.record_success(M)

    assert second.get_status(M).test_count == 1
    first.close()
    second.close()


@pytest.mark.slow
def test_two_processes_record_at_once_and_nothing_is_lost(tmp_path):
    """The store is a database (DS-14)."""
    code = (
        "import sys; from flexchat_validation import ModelValidationTracker; "
        "tracker = ModelValidationTracker(sys.argv[1]); "
        "[tracker.record_success('a/b', n) for n in range(40)]; tracker.close()"
    )
    path = tmp_path / "v.db"
    processes = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(2)]
    assert [process.wait(30) for process in processes] == [0, 0]
    tracker = ModelValidationTracker(path)
    assert tracker.get_status("a/b").success_count == 80
    tracker.close()


async def test_what_is_saved_is_loaded_without_loss(tracker, tmp_path):
    """TC-99: into an empty tracker, and a second time without doubling."""
    tracker.record_success(M, {"query": "übung"})
    tracker.record_failure("a/b", {"code": 7})
    await tracker.save(tmp_path / "deep" / "saved.json")
    again = ModelValidationTracker()

    assert await again.load(tmp_path / "deep" / "saved.json") == 2
    assert again.get_all_validations() == tracker.get_all_validations()
    assert await again.load(tmp_path / "deep" / "saved.json") == 0
    assert await tracker.load(tmp_path / "deep" / "saved.json") == 0
    assert json.loads((tmp_path / "deep" / "saved.json").read_text())["format"] == "flexchat-validation/1"


async def test_runs_are_saved_with_their_attempts(tmp_path):
    """Or a planned verdict would be lost. One that was under way is interrupted elsewhere."""
    store = ValidationStore(tmp_path / "v.db")
    runs = [
        Run(id="r", state="finished", models=(M,), cases=("c",), runs=16),
        Run(id="s", state="running", models=(M,), cases=("c",)),
    ]
    store.add_blocking(
        [Attempt(id=str(n), key=ModelKey(model_id=M), outcome="passed", at="x", run="r") for n in range(16)],
        runs,
    )
    tracker = ModelValidationTracker(store)
    await tracker.save(tmp_path / "saved.json")
    other = ValidationStore(tmp_path / "w.db")
    again = ModelValidationTracker(other)
    await again.load(tmp_path / "saved.json")

    assert again.is_validated(M)
    assert list(await other.runs()) == [attrs.evolve(runs[1], state="interrupted"), runs[0]]
    await other.aclose()
    await store.aclose()


SEED = [
    [
        M,
        {
            "model_id": M,
            "tested": True,
            "validated": True,
            "test_count": 3,
            "success_count": 2,
            "last_tested": "2025-03-01T10:00:02.000Z",
            "test_history": [
                {"timestamp": "2025-03-01T10:00:00.000Z", "success": True, "details": {"tool_calls": 1}},
                {"timestamp": "2025-03-01T10:00:01.000Z", "success": False, "error": "timeout"},
                {"timestamp": "2025-03-01T10:00:02.000Z", "success": True, "details": {"tool_calls": 1}},
            ],
        },
    ],
    ["openai/gpt-4o", {"model_id": "openai/gpt-4o", "test_count": 0, "success_count": 0, "test_history": []}],
]
REFERENCE = {
    "savedAt": "2025-03-02T00:00:00.000Z",
    "records": {
        M: {
            "modelId": M,
            "totalTests": 60,
            "successCount": 58,
            "successRate": 0.966,
            "lastTestedAt": "2025-03-01T11:00:00.000Z",
            "history": [
                {"timestamp": "2025-03-01T10:00:00.000Z", "query": "hi", "tools_used": [], "iterations_used": 1},
                {"timestamp": "2025-03-01T10:30:00.000Z", "error": "boom"},
                {"timestamp": "2025-03-01T11:00:00.000Z", "query": "2+2", "tools_used": ["calc"], "iterations_used": 2},
            ],
        }
    },
}


def written(path, data):
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


async def test_the_specifications_file_is_read(tracker, tmp_path):
    """TC-99, C15: pairs of id and record; the history stays as it was."""
    file = written(tmp_path / "old.json", SEED)

    assert await tracker.load(file) == 3
    assert await tracker.load(file) == 0
    record = tracker.get_status(M)
    assert (record.test_count, record.success_count, record.validated) == (3, 2, False)
    assert record.last_tested == "2025-03-01T10:00:02.000Z"
    assert list(record.test_history) == SEED[0][1]["test_history"]
    assert [r.model_id for r in tracker.get_all_validations()] == [M]


@pytest.mark.parametrize("as_list", [False, True, "pairs"])
async def test_the_originals_file_is_read_and_what_called_no_tool_is_no_success(tracker, tmp_path, as_list):
    """C15, T1: {savedAt, records}. Tests beyond its history stay as they were counted."""
    records = REFERENCE["records"]
    if as_list:
        records = [[id, record] if as_list == "pairs" else record for id, record in records.items()]
    file = written(tmp_path / "old.json", {**REFERENCE, "records": records})
    await tracker.load(file)
    await tracker.load(file)
    record = tracker.get_status(M)

    assert (record.test_count, record.success_count) == (60, 57)
    no_tool, boom, calc = record.test_history[:3]
    assert not no_tool["success"]
    assert "called no tool" in no_tool["error"]
    assert "called no tool" in no_tool["details"]["imported"]
    assert boom["error"] == "boom"
    assert calc["details"] == {"query": "2+2", "tools_used": ["calc"], "iterations_used": 2}


async def test_a_later_copy_of_an_old_file_adds_what_is_new_only(tracker, tmp_path):
    """Its history has moved on; its counts are of everything."""
    await tracker.load(written(tmp_path / "old.json", REFERENCE))
    later = json.loads(json.dumps(REFERENCE))
    record = later["records"][M]
    new = {"timestamp": "2025-03-03T00:00:00.000Z", "query": "3+3", "tools_used": ["calc"], "iterations_used": 2}
    record.update(totalTests=61, successCount=59, history=[*record["history"][1:], new])
    await tracker.load(written(tmp_path / "later.json", later))

    assert (tracker.get_status(M).test_count, tracker.get_status(M).success_count) == (61, 58)


async def test_records_merge_with_what_was_tested_here(tracker, tmp_path):
    """Loading forgets nothing."""
    tracker.record_success(M)
    await tracker.load(written(tmp_path / "old.json", SEED))

    assert tracker.get_status(M).test_count == 4


async def test_a_missing_file_is_only_logged(tracker, tmp_path, caplog):
    """TC-99."""
    caplog.set_level("INFO")

    assert await tracker.load(tmp_path / "none.json") == 0
    assert "none.json" in caplog.text


def broken(**changes):
    return [[M, {**SEED[0][1], **changes}]]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ('[\n["m", {"test_count": 1,}]\n]', "line 2, is not JSON"),
        ("", "line 1, is not JSON"),
        ("[" * 100_000, "cannot be read"),
        ("null", "no validation records"),
        ("{}", "no validation records"),
        ({"records": 3}, "no validation records"),
        ({"records": [3]}, r"records\[0\] must be an object"),
        ([M], r"\[0\] must be a pair"),
        ([[M, 1]], r"\[0\] must be an object"),
        ([["", {}]], r"\[0\] has no model_id"),
        ([[{}, {}]], r"\[0\] has no model_id"),
        (broken(test_history={}), "history must be a list"),
        (broken(test_history=[1]), "history must be a list"),
        (broken(test_count=-1), "whole number"),
        (broken(test_count=True), "whole number"),
        (broken(test_count=1e400), "whole number"),
        (broken(test_count=10**30), "whole number"),
        (broken(success_count=4), "4 of 3 tests"),
        ({"format": "flexchat-validation/9"}, "flexchat-validation/9"),
        ({"format": ["x"]}, "is not known"),
        ({"format": "flexchat-validation/1", "records": {}}, "records must be a list"),
        (
            {"format": "flexchat-validation/1", "records": [{"attempts": [{}]}]},
            r"attempts\[0\]: an attempt: id",
        ),
        ({"format": "flexchat-validation/1", "records": [3]}, r"records\[0\]"),
        ({"format": "flexchat-validation/1", "runs": [{}]}, r"runs\[0\]"),
    ],
)
async def test_a_broken_file_is_a_sentence_and_changes_nothing(tracker, tmp_path, data, said):
    """Not only logged, as in the original: somebody believes it was read."""
    tracker.record_success(M)
    before = tracker.get_all_validations()
    file = written(tmp_path / "broken.json", data)

    with pytest.raises(StorageError, match=said) as raised:
        await tracker.load(file)
    assert str(file) in str(raised.value)
    assert tracker.get_all_validations() == before


async def test_a_file_with_one_bad_record_adds_none_of_the_others(tracker, tmp_path):
    """All or nothing."""
    with pytest.raises(StorageError, match="nothing was loaded"):
        await tracker.load(written(tmp_path / "broken.json", [*SEED, [M, 1]]))

    assert tracker.get_all_validations() == []


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 70) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["records", "model_id", "test_count", "successCount", "history", "timestamp", "error", "tools_used"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(anything | st.lists(st.tuples(st.just("m"), anything).map(list), max_size=3))
def test_any_data_is_merged_or_refused_and_never_twice(data):
    """Law: a ValueError, or nothing new the second time."""
    tracker = ModelValidationTracker()
    try:
        tracker.merge(data)
    except ValueError:
        assert tracker.get_all_validations() == []
    else:
        assert tracker.merge(data) == 0
        for record in tracker.get_all_validations():
            json.dumps(record.to_dict(), allow_nan=False)


async def test_saving_over_the_database_is_refused(tmp_path):
    """It would be gone."""
    tracker = ModelValidationTracker(tmp_path / "v.db")
    tracker.record_success(M)

    with pytest.raises(StorageError, match="is the database"):
        await tracker.save(tmp_path / "v.db")
    tracker.close()


async def test_what_cannot_be_saved_leaves_the_old_file_and_no_rest(tracker, tmp_path, monkeypatch):
    """The disk is full, say."""
    file = written(tmp_path / "saved.json", "old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        await tracker.save(file)
    assert file.read_text() == "old"
    assert [f.name for f in tmp_path.iterdir() if f.name.startswith(".")] == []


def test_a_database_of_something_else_is_a_sentence(tmp_path):
    """It is left as it is."""
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("CREATE TABLE t (x)")
    connection.commit()
    connection.close()
    tracker = ModelValidationTracker(tmp_path / "other.db")

    with pytest.raises(StorageError, match="something else"):
        tracker.record_success(M)
    tracker.close()


def test_data_nested_too_deeply_is_a_value_error():
    """What is merged may come from a client."""
    deep = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(ValueError, match="nested too deeply"):
        ModelValidationTracker().merge([[M, {"test_history": [{"success": True, "details": deep}]}]])


def test_a_damaged_file_is_put_aside_and_recording_goes_on(tmp_path, caplog):
    """Never overwritten, never silently."""
    path = tmp_path / "v.db"
    path.write_bytes(b"damaged" * 1_000)
    tracker = ModelValidationTracker(path)
    tracker.record_success(M)
    assert tracker.get_status(M).test_count == 1
    tracker.close()
    (aside,) = tmp_path.glob("v.damaged-*.db")
    assert aside.read_bytes() == b"damaged" * 1_000
    assert str(aside) in caplog.text
