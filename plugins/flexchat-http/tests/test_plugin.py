"""How the package is found."""

from flexchat.assembly import installed_plugins


def test_the_package_is_found_and_loads():
    reports = {report.name: report for report in installed_plugins().reports}

    assert reports["http"].status == "active"
