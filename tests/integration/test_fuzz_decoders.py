"""benchmarks/fuzz_decoders.py, a short run of it: nothing that a service sends raises what is not ours."""

import fuzz_decoders as fuzzer
import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("target", fuzzer.targets(), ids=lambda t: t.name)
async def test_damaged_answers_end_in_an_answer_or_an_error_of_ours(target):
    """Two hundred inputs each; the million is run by hand."""
    report = await fuzzer.fuzz(target, 200, seed=1)

    assert report.tally["unhandled"] == 0
    assert report.tally["answer"] + report.tally["refused"] == 200


async def test_the_fuzzer_notices_what_it_is_for(capsys):
    """A reader that raises, and a decoder that depends on how its input is cut."""

    class Careless:
        def feed(self, chunk):
            return chunk.split(b"\n")

        def close(self):
            return []

    async def broken(rng):
        raise KeyError("choices")

    careless = fuzzer.decoder_target("careless", Careless, [fuzzer.wire_dialects.CHAT])
    for target in (fuzzer.Target("broken", broken), careless):
        report = await fuzzer.fuzz(target, 50, seed=1)
        assert not report.is_fine
    assert "KeyError" in capsys.readouterr().err
