"""Names of operations, and which are wanted."""

import re

import pytest
from flexchat_http.openapi.convert import check_version, fits, operations_of, select_operations
from flexchat_http.openapi.reading import DocumentError
from hypothesis import given
from hypothesis import strategies as st
from openapi_documents import document, library

PETS = document(
    {
        "/pets": {"get": {"operationId": "listPets", "tags": ["pets", "read"]}, "post": {"operationId": "addPet"}},
        "/pets/{id}": {"get": {}, "delete": {"operationId": "pets.remove", "tags": ["admin"]}},
        "/store/orders": {"get": {"operationId": "list Pets!"}},
    }
)


def names(data):
    return [operation.name for operation in operations_of(library(data))[0]]


def test_a_name_is_the_id_or_method_and_path():
    assert names(PETS) == ["listPets", "addPet", "get_pets_id", "pets_remove", "list_Pets"]


@given(st.lists(st.text(max_size=80), max_size=6))
def test_names_are_legal_and_no_two_are_the_same(ids):
    data = document({f"/{at}": {"get": {"operationId": each}} for at, each in enumerate(ids)})
    made = names(data)

    assert len({name.lower() for name in made}) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in made)
    assert made == names(data)


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ("listPets", ["listPets"]),
        ("pets.remove", ["pets_remove"]),
        ("pets_remove", ["pets_remove"]),
        ("list*", ["listPets", "list_Pets"]),
        ("tag:admin", ["pets_remove"]),
        ("tag:*", ["listPets", "pets_remove"]),
        ("GET", ["listPets", "get_pets_id", "list_Pets"]),
        ("post", ["addPet"]),
        ("/pets", ["listPets", "addPet"]),
        ("/pets/*", ["get_pets_id", "pets_remove"]),
        ("GET /pets*", ["listPets", "get_pets_id"]),
        ("DELETE /pets", []),
    ],
)
def test_selectors_choose_by_id_tag_method_path_and_prefix(selector, chosen):
    assert [each.name for each in operations_of(library(PETS))[0] if fits(selector, each)] == chosen


def test_exclude_wins_and_selectors_that_fit_nothing_are_told():
    chosen, unused = select_operations(operations_of(library(PETS))[0], ["GET", "nobody"], ["/store/*", "tag:none"])

    assert [each.name for each in chosen] == ["listPets", "get_pets_id"]
    assert unused == ["nobody", "tag:none"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            {"swagger": "1.2"},
            "this is Swagger 1.2, and 2.0 or later is needed",
        ),
        ({"openapi": "2.1"}, "not an OpenAPI document of 2.0 or later: openapi is '2.1'"),
        ({}, "it has no 'openapi: 3.…' at its top"),
        ({"openapi": []}, r"openapi is \[\]"),
    ],
)
def test_other_documents_are_refused(data, said):
    with pytest.raises(DocumentError, match=said):
        check_version(library(data))


def test_versions_are_told_apart():
    assert [check_version(library({"openapi": v})) for v in ("3.0.4", "3.1.0", "3.2.0", 3.0)] == [
        True,
        False,
        False,
        True,
    ]
