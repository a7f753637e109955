"""Jupyter notebooks: text, code and printed output, and no pictures as text."""

import json

import pytest
from flexchat_rag.ingest.sections import UnreadableFileError


def notebook(*cells, **more):
    return json.dumps({"nbformat": 4, "metadata": {"language_info": {"name": "python"}}, "cells": cells, **more})


def markdown(*lines):
    return {"cell_type": "markdown", "source": [*lines]}


def code(source, *outputs):
    return {"cell_type": "code", "source": source, "outputs": [*outputs]}


def test_text_code_and_output_are_read(write, text_of):
    stream = {"output_type": "stream", "name": "stdout", "text": ["\x1b[31mred\x1b[0m\n", "two"]}
    value = {"output_type": "execute_result", "data": {"text/plain": "42", "text/html": "<b>42</b>"}}
    picture = {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo" * 50, "text/plain": "<Figure>"}}
    failure = {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["..."]}
    cells = [markdown("# Marmalade\n", "Boil it."), code("x = 1\nx", stream, value, picture, failure)]

    text, notes = text_of(write("a.ipynb", notebook(*cells)))

    assert text == (
        "Marmalade\nBoil it.\n\n```python\nx = 1\nx\n```\n\nOutput:\n```\nred\ntwo\n```\n\nOutput:\n```\n42\n```\n\n"
        "Output:\n```\nValueError: no\n```"
    )
    assert notes == ["holds what is not read: 1 picture"]


def test_a_notebook_of_the_older_format_is_read(write, text_of):
    cells = [{"cell_type": "code", "input": ["1 + 1"], "outputs": [{"output_type": "pyout", "text": ["2"]}]}]
    content = json.dumps({"nbformat": 3, "metadata": {}, "worksheets": [{"cells": cells}]})

    text, _ = text_of(write("a.ipynb", content))

    assert text == "```\n1 + 1\n```\n\nOutput:\n```\n2\n```"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"cells": 1}', "not json", "[" * 100_000])
def test_what_is_no_notebook_is_refused(write, read, content):
    with pytest.raises(UnreadableFileError, match="is not a Jupyter notebook"):
        read(write("a.ipynb", content))


def test_odd_cells_cost_only_themselves(write, text_of):
    content = notebook(7, None, {"cell_type": "code"}, markdown("kept"), code(None, None, 7, {"data": 1}))

    assert text_of(write("a.ipynb", content))[0] == "kept"
