"""Files are replaced whole or not at all."""

import os

import pytest
from flexchat.files import replacing


def names(folder):
    return [entry.name for entry in folder.iterdir()]


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path):
    """Nothing else is left; missing folders are made; what is no UTF-8 is replaced."""
    path = tmp_path / "results" / "r.xml"
    with replacing(path) as file:
        file.write("old")
        assert not path.exists()
    with replacing(path) as file:
        file.write("new\ud800\r\n")
        file.flush()
        assert path.read_text() == "old"
        assert os.path.splitext(file.name)[1] == ".xml"
    assert path.read_bytes() == b"new?\r\n"
    assert names(path.parent) == ["r.xml"]


def test_whoever_raises_leaves_the_old_file(tmp_path):
    path = tmp_path / "r.xml"
    path.write_text("old")

    def write_half():
        with replacing(path) as file:
            file.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["r.xml"]


def test_a_link_and_permissions_stay(tmp_path):
    path, link = tmp_path / "real.toml", tmp_path / "link.toml"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    with replacing(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_permissions_any_program_gives_it(tmp_path):
    """Not those of a temporary file."""
    (tmp_path / "plain").touch()
    with replacing(tmp_path / "made"):
        pass
    assert (tmp_path / "made").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_what_cannot_be_written_is_an_os_error_and_leaves_nothing(tmp_path):
    """A folder, a device, a path through a file."""
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "r.xml", tmp_path.joinpath("/dev/null")):
        with pytest.raises(OSError), replacing(path) as file:
            file.write("x")
    assert names(tmp_path) == ["file"]
