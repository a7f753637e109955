"""The package is found by its entry point."""

import importlib.metadata


def test_the_plugin_is_found_by_its_entry_point():
    (entry,) = (e for e in importlib.metadata.entry_points(group="flexchat") if e.name == "approvals")

    assert entry.load().__name__ == "flexchat_approvals.plugin"
