"""The JSON Schemas of all documents that the command line prints with `--json` (draft 2020-12).

Keys may be added within a version: a reader passes over what it does not know, so the schemas are open. The tests
close them, and so prove that nothing is printed that stands in no schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
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


def _document(optional: dict[str, Schema] | None = None, /, **required: Schema) -> Schema:
    return table(optional, schema_version={"const": 1}, **required)


def _run() -> Schema:
    from mindx.core.run import RunResult

    return RunResult.model_json_schema(mode="serialization")


def _error() -> Schema:
    detail = table(code=TEXT, message=TEXT, phase=TEXT, recoverable=YES_NO, details=ANYTHING)
    return _document(outcome=one_of("invalid", "denied", "error"), error=detail)


_VERDICT = {"verdict": one_of("allow", "ask", "deny"), "rule": TEXT, "layer": TEXT, "reason": TEXT}
_POLICY = table(name=TEXT, sha256=SHA256)
_FAULT = table(
    path=TEXT,
    line=maybe(COUNT),
    column=maybe(COUNT),
    kind=one_of("invalid", "denied", "warning"),
    message=TEXT,
    suggestion=TEXT,
)
# A name that is not UTF-8 has its bytes beside it.
_PATH = table({"path_base64": TEXT}, path=TEXT)
_PATH_REASON = table({"path_base64": TEXT}, path=TEXT, reason=TEXT)
_PACKAGE = table(name=TEXT, version=TEXT, architecture=TEXT)


def _check() -> Schema:
    step = table(
        index=COUNT,
        action_id=TEXT,
        type=TEXT,
        command=TEXT,
        verdict=one_of("ok", "asks", "invalid", "denied"),
        reason=TEXT,
        rule=maybe(TEXT),
    )
    return _document(
        ok=YES_NO,
        outcome=maybe(one_of("invalid", "denied")),
        plan_sha256=maybe(SHA256),
        policy=_POLICY,
        steps=many(step),
        faults=many(_FAULT),
    )


def _exec() -> Schema:
    encoding = one_of("utf-8", "escaped")
    return _document(
        policy=_POLICY,
        accepted_gaps=many(TEXT),
        argv=many(TEXT),
        exit_code=maybe({"type": "integer"}),
        exit_cause=TEXT,
        signal=maybe(COUNT),
        stdout=TEXT,
        stderr=TEXT,
        stdout_encoding=encoding,
        stderr_encoding=encoding,
        stdout_bytes=COUNT,
        stderr_bytes=COUNT,
        truncated=YES_NO,
        duration_s=NUMBER,
        cpu_s=NUMBER,
        max_rss_bytes=maybe(COUNT),
        memory_peak_bytes=maybe(COUNT),
        pids_refused=maybe(COUNT),
        throttled_s=maybe(NUMBER),
        oom_kills=COUNT,
        killed_count=COUNT,
        files_changed=many(TEXT),
        files_changed_count=maybe(COUNT),
        files_changed_complete=YES_NO,
    )


def _runs() -> Schema:
    row = table(
        run_id=TEXT,
        started_at=TEXT,
        outcome=TEXT,
        policy=TEXT,
        steps=COUNT,
        changes=COUNT,
        duration_s=maybe(NUMBER),
        folder=TEXT,
    )
    return _document(runs=many(row))


def _image(optional: dict[str, Schema] | None = None) -> Schema:
    return _document(
        optional,
        name=TEXT,
        image_id=TEXT,
        definition_sha256=TEXT,
        distribution=TEXT,
        built_at=TEXT,
        host_certificates=COUNT,
        packages=many(_PACKAGE),
        reference=TEXT,
    )


def _images() -> Schema:
    row = table(
        name=TEXT,
        state=one_of("ready", "missing", "old"),
        description=TEXT,
        image_id=TEXT,
        size_bytes=COUNT,
        created=TEXT,
        sessions=COUNT,
        labels=maybe(ANYTHING),
    )
    return _document(images=many(row))


def _doctor() -> Schema:
    check = table(check_id=TEXT, state=one_of("ok", "note", "warn", "fail"), found=TEXT, advice=TEXT, command=TEXT)
    return _document({"next": TEXT}, works=YES_NO, checks=many(check))


def _verify() -> Schema:
    probe = table({"pass": YES_NO}, id=TEXT, promise=TEXT, tried=TEXT, happened=TEXT)
    return _document(holds=YES_NO, duration_s=NUMBER, policy=_POLICY, probes=many(probe))


def _trace() -> Schema:
    event = table(seq=COUNT, time=TEXT, kind=TEXT, data=ANYTHING, prev=TEXT, sha256=TEXT)
    return _document(run_id=TEXT, events=many(event))


def _replay() -> Schema:
    step = table(
        number=COUNT,
        action_id=TEXT,
        name=TEXT,
        arguments=ANYTHING,
        asked_s=NUMBER,
        ended_s=maybe(NUMBER),
        status=maybe(TEXT),
        message=TEXT,
    )
    return _document(run_id=TEXT, outcome=maybe(TEXT), seconds=NUMBER, steps=many(step), problems=many(TEXT))


def _config() -> Schema:
    value: Schema = {"type": ["string", "array", "null"]}
    return _document(settings={"type": "object", "additionalProperties": table(value=value, origin=TEXT)})


def _changes() -> Schema:
    change: Schema = {
        "type": "object",
        "required": ["path", "kind", "entry", "mode", "size", "sha256", "stored", "before", "runs_on_your_machine"],
    }
    return _document(
        run_id=TEXT, folder=TEXT, changes=many(change), omitted=many(table(path=TEXT, reason=TEXT)), omitted_count=COUNT
    )


def _applied() -> Schema:
    return _document(
        {"target_base64": TEXT},
        run_id=TEXT,
        target=TEXT,
        applied=many(_PATH),
        already=many(_PATH),
        conflicts=many(_PATH_REASON),
        skipped=many(_PATH_REASON),
        kept=many(_PATH),
        left_out=many(table(path=TEXT, reason=TEXT)),
    )


def _policy_show() -> Schema:
    layer = table(name=TEXT, source=TEXT, trusted=YES_NO, sha256=SHA256)
    return _document(policy=ANYTHING, sha256=SHA256, origin=ANYTHING, layers=many(layer))


def _policy_test() -> Schema:
    row = table(rule=TEXT, example=TEXT, expected=TEXT, ok=YES_NO, verdict=TEXT, decided_by=TEXT, reason=TEXT)
    return _document(ok=YES_NO, examples=many(row))


def _explain() -> Schema:
    step = table(argv=many(TEXT), via=TEXT, risk=TEXT, **_VERDICT)
    return _document(risk=TEXT, steps=many(step), **_VERDICT)


def _dry_copy() -> Schema:
    entry = table(path=TEXT, kind=one_of("file", "directory", "link"), size=COUNT)
    return _document(
        folder=TEXT,
        entries=many(entry),
        content_bytes=COUNT,
        omitted=many(table(path=TEXT, reason=TEXT)),
        omitted_count=COUNT,
        secrets=many(TEXT),
        exclude=many(TEXT),
    )


def _policy() -> Schema:
    from mindx.policy.text import json_schema

    return json_schema()


_BELIEF = table(
    namespace=TEXT,
    key=TEXT,
    value={},
    confidence=NUMBER,
    source=TEXT,
    created=NUMBER,
    updated=NUMBER,
    ttl_s=maybe(NUMBER),
    metadata=ANYTHING,
)


def _agent() -> Schema:
    from mindx.core.agent_error import ErrorCode, ErrorPhase
    from mindx.core.checkpoint import RunOutcome

    codes, phases = one_of(*(code.value for code in ErrorCode)), one_of(*(phase.value for phase in ErrorPhase))
    detail = table(code=codes, message=TEXT, phase=phases, recoverable=YES_NO, details=ANYTHING)
    change = table(path=TEXT, kind=TEXT, entry=TEXT, mode=TEXT, size=COUNT, sha256=TEXT, stored=YES_NO, note=TEXT)
    of_bdi = {"mind": TEXT, "status": TEXT, "goal_id": TEXT, "plan_ids": many(TEXT), "cycles": COUNT}
    return _document(
        of_bdi,
        run_id=TEXT,
        outcome=one_of(*(outcome.value for outcome in RunOutcome)),
        final_answer=TEXT,
        error=maybe(detail),
        steps=COUNT,
        actions=COUNT,
        usage=ANYTHING,
        duration_s=NUMBER,
        changes=many(change),
        trace=TEXT,
    )


def _mission() -> Schema:
    from mindx.agents.agint.life import AGIntDecision, AGIntStatus
    from mindx.agents.agint.phase import PhaseStatus

    phase = table(
        name=TEXT,
        task=TEXT,
        depends_on=many(TEXT),
        status=one_of(*(status.value for status in PhaseStatus)),
        attempts=COUNT,
        told=TEXT,
    )
    failure = table(code=TEXT, message=TEXT, phase=TEXT, recoverable=YES_NO, details=ANYTHING)
    change = table(path=TEXT, kind=TEXT, entry=TEXT, mode=TEXT, size=COUNT, sha256=TEXT, stored=YES_NO, note=TEXT)
    return _document(
        mission_id=TEXT,
        directive=TEXT,
        status=one_of(*(status.value for status in AGIntStatus)),
        awareness=TEXT,
        message=TEXT,
        phases=many(phase),
        decisions=many(one_of(*(decision.value for decision in AGIntDecision))),
        cycles=COUNT,
        tokens=COUNT,
        seconds=NUMBER,
        error=maybe(failure),
        run_id=TEXT,
        changes=many(change),
        trace=TEXT,
    )


def _campaign_row() -> Schema:
    from mindx.agents.mastermind.campaign import CampaignStatus

    outcome = table(final_bdi_status=TEXT, summary=TEXT, error_code=TEXT, exit_code=COUNT)
    task = table(
        tool_id=TEXT,
        version=TEXT,
        attempt=COUNT,
        interaction_id=TEXT,
        status=TEXT,
        problem=TEXT,
        sha256=TEXT,
        registered=YES_NO,
        used=YES_NO,
    )
    return table(
        campaign_id=TEXT,
        directive=TEXT,
        campaign_type=TEXT,
        status=one_of(*(status.value for status in CampaignStatus)),
        autonomous=YES_NO,
        created_at=NUMBER,
        completed_at=maybe(NUMBER),
        outcome=maybe(outcome),
        sub_tasks=many(task),
        cycles=COUNT,
        max_bdi_cycles=COUNT,
        seconds=NUMBER,
        usage=ANYTHING,
    )


def _campaign() -> Schema:
    row = _campaign_row()
    return _document(**row["properties"])


def _tools() -> Schema:
    row = table(
        tool_id=TEXT,
        version=TEXT,
        status=TEXT,
        enabled=YES_NO,
        description=TEXT,
        capabilities=many(TEXT),
        sha256=SHA256,
        added_by=TEXT,
        updated_at=TEXT,
    )
    return _document(revision=COUNT, tools=many(row))


def _tool() -> Schema:
    from mindx.cli.tools import ToolDocument

    return ToolDocument.model_json_schema(mode="serialization")


def _tool_test() -> Schema:
    call = table(capability=TEXT, arguments=ANYTHING, ok=YES_NO, answer={}, message=TEXT, duration_s=NUMBER)
    return _document(tool_id=TEXT, version=TEXT, sha256=SHA256, ok=YES_NO, policy=_POLICY, calls=many(call))


def _coordinator_status() -> Schema:
    from mindx.agents.constitution import Layer
    from mindx.agents.coordinator.performance import ModelPerformance

    agent = table(
        agent_id=TEXT,
        agent_type=TEXT,
        layer=one_of(*(layer.value for layer in Layer)),
        description=TEXT,
        capabilities=many(TEXT),
        registered_at=TEXT,
    )
    model = ModelPerformance.model_json_schema(mode="serialization")["properties"]
    model = {**model, "mean_latency_s": maybe(NUMBER)}
    del model["latencies_s"]
    alert = table(resource=TEXT, path=TEXT, percent=NUMBER, limit=NUMBER, resolved=YES_NO)
    counts: Schema = {"type": "object", "additionalProperties": COUNT}
    interrupted = table(interaction_id=TEXT, interaction_type=TEXT, content=TEXT)
    return _document(
        agents=many(agent),
        interactions=counts,
        interrupted=many(interrupted),
        backlog=counts,
        alerts=many(alert),
        performance=many(table(**model)),
    )


def _shown_by_coordinator(name: str) -> Callable[[], Schema]:
    def made() -> Schema:
        from mindx.cli import coordinator_show

        schema: Schema = getattr(coordinator_show, name).model_json_schema(mode="serialization")
        return schema

    return made


_LEFTOVER = table(container_id=TEXT, name=TEXT, state=TEXT, session_id=TEXT)
# By name: the command whose document it is, and the schema, made when it is asked for.
SCHEMAS: dict[str, tuple[str, Callable[[], Schema]]] = {
    "run": ("run, runs show", _run),
    "agent": ("agent", _agent),
    "tasks": (
        "task list",
        lambda: _document(
            tasks=many(
                table(task_id=TEXT, objective=TEXT, workspace=maybe(TEXT), status=TEXT, runs=COUNT, created_at=TEXT)
            )
        ),
    ),
    "beliefs": ("beliefs list", lambda: _document(beliefs=many(_BELIEF), more=YES_NO)),
    "belief": ("beliefs show", lambda: _document(belief=_BELIEF)),
    "mission": ("mission", _mission),
    "campaign": ("campaign run, show", _campaign),
    "campaigns": ("campaign list", lambda: _document(campaigns=many(_campaign_row()))),
    "tools": ("tools list", _tools),
    "tool": ("tools show, deprecate", _tool),
    "tool-test": ("tools test", _tool_test),
    "coordinator-status": ("coordinator status", _coordinator_status),
    "coordinator-backlog": ("coordinator backlog", _shown_by_coordinator("BacklogDocument")),
    "coordinator-item": ("coordinator backlog ITEM, approve, reject", _shown_by_coordinator("ItemDocument")),
    "coordinator-interaction": ("coordinator rollback, work", _shown_by_coordinator("InteractionDocument")),
    "error": ("any command that failed before it had a document", _error),
    "check": ("check", _check),
    "exec": ("exec", _exec),
    "dry-copy": ("run --dry-copy", _dry_copy),
    "runs": ("runs list", _runs),
    "output": (
        "runs output",
        lambda: _document(
            run_id=TEXT,
            index=COUNT,
            stream=one_of("stdout", "stderr", "both"),
            state=one_of("finished", "running", "interrupted"),
            lines=many(TEXT),
        ),
    ),
    "pruned": ("runs prune", lambda: _document(dry_run=YES_NO, removed=many(TEXT), kept=COUNT)),
    "trace": ("trace show", _trace),
    "trace-replay": ("trace replay", _replay),
    "trace-verify": (
        "trace verify",
        lambda: _document(run_id=TEXT, ok=YES_NO, events=COUNT, head=TEXT, problem=TEXT, line=maybe(COUNT), cut=YES_NO),
    ),
    "changes": ("changes show", _changes),
    "applied": ("changes apply", _applied),
    "policy": ("the policy file itself; policy schema", _policy),
    "policy-show": ("policy show", _policy_show),
    "policy-check": (
        "policy check",
        lambda: _document(ok=YES_NO, name=TEXT, sha256=SHA256, source=TEXT, warnings={"type": "array"}),
    ),
    "policy-explain": ("policy explain", _explain),
    "policy-test": ("policy test", _policy_test),
    "config": ("config show", _config),
    "images": ("image list", _images),
    "image": ("image show, build, pull, import", lambda: _image({"labels": ANYTHING})),
    "image-removed": ("image remove", lambda: _document(removed=many(TEXT))),
    "image-export": ("image export", lambda: _document(file=TEXT, sha256=SHA256, size=COUNT, image=_image())),
    "doctor": ("doctor", _doctor),
    "verify": ("verify", _verify),
    "gc": ("gc", lambda: _document(dry_run=YES_NO, found=many(_LEFTOVER), removed=many(TEXT))),
}


def schema(name: str) -> Schema:
    """Return a schema by its name. Raises KeyError."""
    _, make = SCHEMAS[name]
    return {"$schema": _DIALECT, "title": f"mindx {name}", **make()}
