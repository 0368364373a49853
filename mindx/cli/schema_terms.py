"""The words of which the JSON Schemas of the command line are made."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number", "minimum": 0}
COUNT: Schema = {"type": "integer", "minimum": 0}
YES_NO: Schema = {"type": "boolean"}
SHA256: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
ANYTHING: Schema = {"type": "object"}


def one_of(*words: str) -> Schema:
    """Return the schema of a text that is one of these."""
    return {"enum": list(words)}


def maybe(schema: Schema) -> Schema:
    """Return the schema of a value that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def many(schema: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": schema}


def table(optional: dict[str, Schema] | None = None, /, **required: Schema) -> Schema:
    """Return the schema of an object with these keys."""
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}


def document(optional: dict[str, Schema] | None = None, /, **required: Schema) -> Schema:
    """Return the schema of a document: an object with these keys and its version."""
    return table(optional, schema_version={"const": 1}, **required)


POLICY = table(name=TEXT, sha256=SHA256)
