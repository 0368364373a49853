"""Policies as text: the values in force as people write them, with where each comes from; and the JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from mindx.core.table import keys_of, written_name
from mindx.policy.model import Approvals, Limits, Policy, Rule, WorkspaceRules
from mindx.policy.units import format_duration, format_size

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def as_document(policy: Policy) -> dict[str, Any]:
    """Return every value in force, in the form and order of a policy file."""
    document: dict[str, Any] = {"version": 1, "name": policy.name}
    if policy.description:
        document["description"] = policy.description
    document |= {"image": policy.image, **_optional(policy), "limits": _limits(policy.limits)}
    document["workspace"] = _table(policy.workspace, WorkspaceRules)
    document["commands"] = [_rule(rule) for rule in policy.commands]
    document["approvals"] = _table(policy.approvals, Approvals)
    document["autonomous"] = policy.autonomous
    layers = {name: [_rule(rule) for rule in rules] for name, rules in policy.command_layers[1:]}
    return {**document, **({"tightened_by": layers} if layers else {})}


def as_yaml(policy: Policy, origin: Mapping[str, str] | None = None) -> str:
    """Return the document as YAML; with `origin` each key has a comment that names the layers which decided it."""
    lines: list[str] = []
    for key, value in as_document(policy).items():
        source = (origin or {}).get(key)
        if isinstance(value, dict) and key != "tightened_by":
            lines.append(f"{key}:")
            for name, inner in value.items():
                lines.append("  " + _line(name, inner, (origin or {}).get(f"{key}.{name}")))
        elif key in ("commands", "tightened_by"):
            lines.append(f"{key}:" + (f"  # {source}" if source else ""))
            block = yaml.safe_dump(value, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True)
            lines += [f"  {line}" for line in block.splitlines()]
        else:
            lines.append(_line(key, value, source))
    return "\n".join(lines) + "\n"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a policy file."""
    schema = Policy.schema()
    return {"$schema": SCHEMA_DIALECT, **schema, "title": "mindx policy", "required": ["version"]}


def _line(key: str, value: Any, source: str | None) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=100_000, allow_unicode=True).split("\n...")[0].strip()
    return f"{key}: {text}" + (f"  # {source}" if source else "")


def _limits(limits: Limits) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for item in keys_of(Limits):
        name, value = item.name, getattr(limits, item.name)
        if name.endswith("_bytes"):
            value = format_size(value)
        elif name.endswith("_s"):
            value = format_duration(value)
        values[written_name(item)] = value
    return values


def _table(table: Any, model: type[WorkspaceRules] | type[Approvals]) -> dict[str, Any]:
    values = {item.name: getattr(table, item.name) for item in keys_of(model)}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items() if v is not None}


def _optional(policy: Policy) -> dict[str, Any]:
    values: dict[str, Any] = {"runtime": policy.runtime} if policy.runtime else {}
    return {**values, **({"accept_gaps": list(policy.accept_gaps)} if policy.accept_gaps else {})}


def _rule(rule: Rule) -> dict[str, Any]:
    texts = list(rule.texts)
    values: dict[str, Any] = {rule.decision: texts[0] if len(texts) == 1 else texts}
    if rule.at_most:
        values["at_most"] = rule.at_most
    if rule.reason:
        values["reason"] = rule.reason
    return values
