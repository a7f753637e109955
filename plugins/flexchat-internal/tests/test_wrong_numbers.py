"""What a model reads of a wrong number of results is JSON, as it wrote it."""

import pytest
from flexchat_internal.rag_query import RagQueryError, _count


@pytest.mark.parametrize(("given", "said"), [(True, "true"), (None, "null"), ("5", '"5"'), ([1, None], "[1, null]")])
def test_a_wrong_number_is_said_as_it_was_written(given, said):
    with pytest.raises(RagQueryError, match="got ") as caught:
        _count({"max_results": given})

    assert str(caught.value).endswith(f"got {said}")
