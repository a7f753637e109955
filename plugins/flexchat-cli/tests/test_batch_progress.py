"""What is remembered of a batch that was cut off."""

import json
import time

import pytest
from flexchat.domain import ChatRequest
from flexchat.errors import StorageError
from flexchat_cli.batch import Prompt, progress_of
from flexchat_cli.context import UsageError

PROMPT = Prompt(line=1, id=1, request=ChatRequest(user_message="Hi"), digest="d" * 32)


def test_a_batch_that_was_not_done_goes_on_under_the_same_names():
    """And another begins with others."""
    with progress_of("a", fresh=False) as first, progress_of("b", fresh=False) as other:
        assert first.name(PROMPT) != other.name(PROMPT)
    with progress_of("a", fresh=False) as second:
        assert second.name(PROMPT) == first.name(PROMPT)


def test_one_that_is_done_or_begun_afresh_has_other_names():
    """Asking again is asking again."""
    names = set()
    for fresh in (False, True, False):
        with progress_of("a", fresh=fresh) as progress:
            names.add(progress.name(PROMPT))
            if not fresh:
                continue
            progress.done()
    assert len(names) == 3


def test_two_at_once_are_refused():
    """Both would write the same answers."""
    with (
        progress_of("a", fresh=False),
        pytest.raises(UsageError, match="already running"),
        progress_of("a", fresh=True),
    ):
        pass


def test_one_begun_long_ago_is_refused(data_folder):
    """The keys that make a repetition safe are forgotten after a day."""
    with progress_of("a", fresh=False):
        pass
    file = data_folder / "batches" / "a.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "began_at": time.time() - 30 * 3600}))

    with pytest.raises(UsageError, match=r"begun 30 hours ago.*--fresh"), progress_of("a", fresh=False):
        pass
    with progress_of("a", fresh=True):
        pass


@pytest.mark.parametrize("content", ["", "{", "[]", '{"run": "x"}', '{"run": "x", "began_at": "soon"}', "\0"])
def test_a_file_cut_off_while_it_was_written_begins_afresh(data_folder, content):
    """Nothing was asked before it was written."""
    (data_folder / "batches").mkdir(parents=True)
    (data_folder / "batches" / "a.json").write_text(content)

    with progress_of("a", fresh=False) as progress:
        assert progress.run != "x"


def test_a_folder_that_cannot_be_written_is_said(data_folder):
    """Not a traceback."""
    data_folder.parent.mkdir(parents=True, exist_ok=True)
    data_folder.write_text("a file")

    with pytest.raises(StorageError, match="batches"), progress_of("a", fresh=False):
        pass
