"""Where PostgreSQL's programs run that these tests start."""

import os
import subprocess

import pytest

NOBODY = 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts the server as another user")
def test_in_a_folder_that_only_root_may_enter_they_run_from_a_copy(tmp_path, programs_of):
    """As in a clone below /root; with blanks and umlauts in its name."""
    package = tmp_path / "mein Ümläut" / "server"
    postgres = package / "pginstall18" / "bin" / "postgres"
    postgres.parent.mkdir(parents=True)
    postgres.write_text("#!/bin/sh\necho here\n")
    postgres.chmod(0o755)
    (tmp_path / "mein Ümläut").chmod(0o700)

    programs = programs_of(package)

    assert tmp_path not in programs.parents
    assert subprocess.check_output([programs / "postgres"], user=NOBODY, group=NOBODY, extra_groups=[]) == b"here\n"
