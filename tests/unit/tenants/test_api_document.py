"""The OpenAPI document: valid, every field described with its unit, every example admitted by its schema."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from tenants.api.descriptions import unit_of
from tests.openapi import KEPT, document

_PROBLEM: Final = {"$ref": "#/components/schemas/Problem"}


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return document()


def operations(told: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in told["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def test_the_document_is_valid(told: dict[str, Any]) -> None:
    validate(told)


def test_the_document_that_clients_are_made_of_is_this_one(told: dict[str, Any]) -> None:
    assert json.loads(KEPT.read_text()) == told, "python -m tests.openapi --rewrite"


def test_every_field_says_what_it_means_and_in_which_unit(told: dict[str, Any]) -> None:
    lacking = []
    for name, schema in told["components"]["schemas"].items():
        lacking += [] if schema.get("description") else [name]
        for field, found in schema.get("properties", {}).items():
            unit, text = unit_of(field), found.get("description", "")
            if len(text) < 5 or (unit is not None and unit not in text):
                lacking.append(f"{name}.{field}: {text!r} lacks {unit}")
    assert lacking == []


def test_every_operation_and_parameter_is_described(told: dict[str, Any]) -> None:
    lacking = []
    for name, operation in operations(told):
        lacking += [] if operation.get("description") and operation.get("operationId") else [name]
        lacking += [
            f"{name} {one['name']}" for one in operation.get("parameters", ()) if not one.get("description")
        ]
    assert lacking == []


def test_every_operation_has_examples_that_its_schema_admits(told: dict[str, Any]) -> None:
    wrong, checked = [], 0
    for name, operation in operations(told):
        answers = {**operation["responses"], "body": operation.get("requestBody", {})}
        assert any(status.startswith("2") for status in answers), name
        for status, answer in answers.items():
            for media_type, content in answer.get("content", {}).items():
                assert "example" in content, (name, status)
                if "json" not in media_type:
                    continue
                schema = {**content["schema"], "components": told["components"]}
                found = Draft202012Validator(schema).iter_errors(content["example"])
                wrong += [f"{name} {status} {list(one.path)}: {one.message[:200]}" for one in found]
                checked += 1
    assert wrong == []
    assert checked > 100


def test_errors_have_one_shape(told: dict[str, Any]) -> None:
    for name, operation in operations(told):
        errors = {status: one for status, one in operation["responses"].items() if status >= "4"}
        assert {"401", "429", "503"} <= errors.keys(), name
        for one in errors.values():
            assert list(one["content"]) == ["application/problem+json"]
            assert one["content"]["application/problem+json"]["schema"] == _PROBLEM


def test_names_of_operations_are_those_of_functions_and_unique(told: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(told)]
    assert len(names) == len(set(names))
