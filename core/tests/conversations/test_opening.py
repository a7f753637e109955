"""From the table [conversations] to a store."""

import attrs
import flexchat_sqlite.plugin
import pytest
from flexchat.config.reading import read_config
from flexchat.conversations.opening import open_conversations
from flexchat.plugin import hookimpl
from flexchat.plugin.host import PluginHost
from flexchat.store import ConversationStoreType


@attrs.frozen(kw_only=True)
class Settings:
    dsn: str = attrs.field(metadata={"secret": True})


class Plugin:
    @hookimpl
    def flexchat_register_conversation_stores(self):
        def create(settings, folder):
            if settings.dsn == "bad":
                raise ValueError("the dsn is bad")
            return (settings.dsn, folder)

        yield ConversationStoreType(name="theirs", config_class=Settings, create=create)


@pytest.fixture
def host():
    host = PluginHost()
    host.register(Plugin(), "plugin")
    host.register(flexchat_sqlite.plugin, "sqlite")
    return host


def opened(table, host):
    reading = read_config({} if table is None else {"conversations": table})
    store = open_conversations(reading, host)
    return store, [str(p) for p in reading.problems if p.path.startswith("conversations")]


def test_without_the_table_nothing_is_kept(host):
    assert opened(None, host) == (None, [])


def test_an_empty_table_means_the_built_in_store_in_the_users_data(host, data_folder):
    store, problems = opened({}, host)

    assert (store.path, problems) == (data_folder / "conversations.db", [])
    assert not data_folder.exists()


def test_a_plugins_store_gets_its_settings(host):
    assert opened({"provider": "theirs", "dsn": "x"}, host) == (("x", None), [])


def test_paths_are_meant_from_the_folder_of_the_file(host, tmp_path):
    file = tmp_path / "flexchat.toml"
    file.write_text('[conversations]\npath = "data/c.db"\n')

    assert open_conversations(read_config(file), host).path == tmp_path / "data" / "c.db"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"provider": "thirs"}, "did you mean 'theirs'?"),
        ({"provider": "theirs"}, "required key missing"),
        ({"provider": "theirs", "dsn": "bad"}, "the dsn is bad"),
        ({"path": 3}, "expected text"),
        ({"pth": "x"}, "did you mean 'path'?"),
        ({"provider": 3}, "expected text"),
        ("sqlite", "expected a table"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(host, table, said):
    store, problems = opened(table, host)

    assert store is None
    assert len(problems) == 1
    assert said in problems[0]
