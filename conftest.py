"""What all tests share."""

import asyncio
import functools
import gc
import importlib.metadata
import itertools
import os
import signal
import sys
import time
import types
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pluggy
import pytest
from hypothesis import settings

# No deadline: a loaded machine is slow. The examples are the same in every run, so that a change is judged by what it
# changed; ./dev test --hypothesis-profile explore … looks for new ones.
settings.register_profile("few", deadline=None, derandomize=True, max_examples=10)
settings.register_profile("many", deadline=None, derandomize=True, max_examples=100)  # ./dev test --all
settings.register_profile("explore", deadline=None, max_examples=2_000)
settings.load_profile("few")

# No test reaches the keyring of the person who runs it, nor does a program that a test starts.
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"


def pytest_configure(config: pytest.Config) -> None:
    """Describe the markers that the tests of every package use, and let Ctrl-C interrupt."""
    config.addinivalue_line("markers", "slow: takes a third of a second or more; runs with ./dev test --all, or named")
    config.addinivalue_line("markers", "quick: starts a server, and runs with the quick tests nevertheless")
    config.addinivalue_line(
        "markers", "timed: holds a limit of time; gets two more tries, for machines stand still at times"
    )
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as for what a shell starts with &, and for its children
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before slow tests are left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give limits of time and real browsers another try: machines stand still at times. A promise gets none.

    That a module is light costs a process for each plugin; one quick test loads all of them. A test of a real
    PostgreSQL server is slow, unless it is marked quick.
    """
    for item in items:
        names = {*getattr(item, "fixturenames", ())}
        is_of_server = bool({"dsn", "own_server"} & names) or {"server", "schema"} <= names
        if (is_of_server and not item.get_closest_marker("quick")) or getattr(
            item, "originalname", item.name
        ) == "test_its_module_is_light":
            item.add_marker(pytest.mark.slow)
    if config.pluginmanager.has_plugin("rerunfailures"):
        for item in items:
            if item.get_closest_marker("timed") or {"browser", "cpu_growth"} & set(getattr(item, "fixturenames", ())):
                item.add_marker(pytest.mark.flaky(reruns=2))


def pytest_collection(session: pytest.Session) -> None:
    """Collect no garbage while modules are imported: nearly all they make stays."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """From here on, garbage is looked for only in what tests make, not in hundreds of imported modules."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)  # ten times as seldom as by default
    gc.enable()


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio: FlexChat needs nothing else."""
    return "asyncio"


@pytest.fixture(autouse=True)
def data_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing a test does reaches the data of the person who runs it."""
    folder = tmp_path_factory.getbasetemp() / "data" / os.urandom(8).hex()
    monkeypatch.setenv("FLEXCHAT_DATA", str(folder))
    return folder


def parsed_once(parse: Callable[..., object]) -> Callable[..., object]:
    """Look at each function of a module once for what it is to pluggy, however many hosts load its plugin."""
    known: dict[tuple[str, int], tuple[object, object]] = {}

    def parse_opts(manager: pluggy.PluginManager, holder: object, name: str) -> object:
        value = vars(holder).get(name) if isinstance(holder, types.ModuleType) else None
        if value is None:
            return parse(manager, holder, name)
        key = manager.project_name, id(value)
        if key not in known:
            known[key] = value, parse(manager, holder, name)  # the value is kept, or another one would get its id
        return known[key][1]

    return parse_opts


@pytest.fixture(scope="session", autouse=True)
def installed_packages() -> Iterator[None]:
    """What is installed is read once: thousands of tests open a command line or a FlexChat.

    Folders that a test adds to the search path, as commands do with the folder of the configuration, are read as often
    as they change.
    """
    lasting = {folder: 0 for folder in sys.path if os.path.isabs(folder)}

    def modified(folder: str) -> int:
        try:
            return lasting[folder] if folder in lasting else os.stat(folder).st_mtime_ns
        except OSError:
            return 0

    def parse_once(kind: type) -> None:
        if isinstance(kind.metadata, property):
            metadata = functools.cached_property(kind.metadata.fget)
            metadata.__set_name__(kind, "metadata")
            patch.setattr(kind, "metadata", metadata)

    @functools.cache
    def packages(folder: str, modified: int) -> dict[str, tuple[importlib.metadata.EntryPoint, ...]]:
        found = {}
        for package in importlib.metadata.distributions(path=[folder]):
            parse_once(type(package))
            found.setdefault(package.name.lower().replace("-", "_"), tuple(package.entry_points))
        return found

    def entry_points(**group: str) -> importlib.metadata.EntryPoints:
        found: dict[str, tuple[importlib.metadata.EntryPoint, ...]] = {}
        for folder in map(os.path.abspath, sys.path):
            found = packages(folder, modified(folder)) | found
        return importlib.metadata.EntryPoints(itertools.chain(*found.values())).select(**group)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.metadata, "entry_points", entry_points)
        for parse in ("parse_hookimpl_opts", "parse_hookspec_opts"):
            patch.setattr(pluggy.PluginManager, parse, parsed_once(getattr(pluggy.PluginManager, parse)))
        yield


@pytest.fixture
def cpu_growth() -> Callable[[Callable[[int], object], int, int], float]:
    """Return how much more processor time a large input takes than a small one: work done for two sizes, best of three.

    Work in proportion to its input gives the ratio of the sizes, quadratic work the square of it.
    """

    def seconds(work: Callable[[int], object], size: int) -> float:
        began = time.thread_time()
        work(size)
        return time.thread_time() - began

    def growth(work: Callable[[int], object], small: int, large: int) -> float:
        return min(seconds(work, large) for _ in range(3)) / max(min(seconds(work, small) for _ in range(3)), 0.001)

    return growth


@pytest.fixture
async def virtual_time() -> AsyncIterator[None]:
    """Time passes only while nothing can run, and then at once: waits take none, and no stalled machine ends one.

    For tests on one event loop: what a thread or another process does is not waited for.
    """
    selector, now = asyncio.get_running_loop()._selector, time.monotonic()
    select = selector.select

    def advance(timeout: float | None = None) -> list:
        nonlocal now
        if timeout is None or timeout <= 0:
            return select(timeout)
        events = select(0)
        now += 0 if events else timeout
        return events

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: now)
        patch.setattr(time, "perf_counter", lambda: now)
        patch.setattr(selector, "select", advance)
        yield
