"""Whatever a name belongs to: nothing hangs, and each thing that is no file is called by its name."""

import os
import socket
import threading

import pytest
from flexchat.errors import PathError
from flexchat.files import located, open_file, path_exists, read_file, refuse_other, working_folder

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a system with FIFOs")


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


OTHERS = {
    "a folder": (os.mkdir, "this is a folder"),
    "a FIFO": (os.mkfifo, "this is a FIFO"),
    "a socket": (make_socket, "this is a socket"),
    "a device": (lambda path: os.symlink("/dev/zero", path), "this is a device"),
    "a link to itself": (lambda path: os.symlink(path, path), "the link leads back to itself"),
    "below a file": (lambda path: (path.parent.rmdir(), path.parent.write_text("")), "a part of the path is a file"),
}


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    (tmp_path / "in").mkdir()
    return tmp_path / "in" / "x.toml"


@pytest.mark.parametrize(("make", "said"), OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("use", [open_file, lambda path: read_file(path, most=1024), refuse_other])
def test_what_is_no_file_is_called_by_its_name(path, use, make, said):
    make(path)

    with pytest.raises(OSError) as raised:
        use(path)
    assert raised.value.strerror.startswith(said)
    assert raised.value.filename == str(path)


@pytest.mark.parametrize("name", ["x" * 5000, "x" * 300, "a\0b", "\ud800"])
@pytest.mark.parametrize("use", [open_file, refuse_other])
def test_what_no_file_can_be_called_is_said(tmp_path, name, use):
    with pytest.raises(OSError) as raised:
        use(tmp_path / name)
    assert raised.value.strerror in ("the name is too long", "no file can have this name")


def test_a_missing_file_and_a_link_to_one_are_told_apart(path):
    with pytest.raises(FileNotFoundError) as raised:
        open_file(path)
    assert raised.value.strerror == "there is no such file"

    path.symlink_to("gone.toml")

    with pytest.raises(FileNotFoundError) as raised:
        open_file(path)
    assert raised.value.strerror == "the link leads to something that does not exist: gone.toml"


def test_a_file_is_read_up_to_its_limit_and_not_beyond(path):
    path.write_bytes(b"x" * (1 << 20))

    assert len(read_file(path, most=1 << 20)) == 1 << 20
    path.write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(OSError) as raised:
        read_file(path, most=1 << 20)
    assert raised.value.strerror == "the file is larger than 1 MiB"


def test_a_pipe_of_the_shell_is_read():
    """A token file is often <(command): /dev/fd/63, a pipe somebody writes to."""
    reading, writing = os.pipe()
    threading.Thread(target=lambda: (os.write(writing, b"acme 0123"), os.close(writing))).start()

    assert read_file(f"/dev/fd/{reading}", most=1024) == b"acme 0123"
    os.close(reading)


def test_a_free_name_may_be_written_to(path):
    refuse_other(path)
    path.write_text("")
    refuse_other(path)


def test_a_name_is_taken_whatever_it_belongs_to(path):
    assert not path_exists(path)
    assert not path_exists(path / "below nothing")
    path.symlink_to(path)
    assert path_exists(path)


def test_a_path_starts_at_home_or_in_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))

    assert located("~/x") == tmp_path / "x"
    assert located("x", tmp_path) == tmp_path / "x"
    assert located("/x", tmp_path) == located("/x")


@pytest.mark.parametrize(
    ("name", "said"),
    [("~no-such-user/x", "there is no user no-such-user"), ("a\0b", "the name contains a NUL character")],
)
def test_a_path_that_leads_nowhere_is_an_error_of_ours(name, said):
    with pytest.raises(PathError, match=said):
        located(name)


def test_a_home_nobody_knows_is_said(monkeypatch):
    def nobody(name):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.expanduser", nobody)

    with pytest.raises(PathError, match="set HOME"):
        located("~/x")


def test_a_working_folder_that_is_gone_is_said(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    path.parent.rmdir()

    with pytest.raises(PathError, match="the working folder no longer exists"):
        working_folder()
