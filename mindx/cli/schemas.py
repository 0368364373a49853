"""The JSON Schemas of all documents that the command line prints with `--json` (draft 2020-12).

Keys may be added within a version: a reader passes over what it does not know, so the schemas are open. The tests
close them, and so prove that nothing is printed that stands in no schema.
"""

from __future__ import annotations

from collections.abc import Callable

from mindx.cli.schema_terms import (
    ANYTHING,
    COUNT,
    DIALECT,
    NUMBER,
    POLICY,
    SHA256,
    TEXT,
    YES_NO,
    Schema,
    document,
    many,
    maybe,
    one_of,
    table,
)
from mindx.cli.schemas_agents import AGENT_SCHEMAS


def _run() -> Schema:
    from mindx.core.run import RunResult

    return RunResult.model_json_schema(mode="serialization")


def _error() -> Schema:
    detail = table(code=TEXT, message=TEXT, phase=TEXT, recoverable=YES_NO, details=ANYTHING)
    return document(outcome=one_of("invalid", "denied", "error"), error=detail)


_VERDICT = {"verdict": one_of("allow", "ask", "deny"), "rule": TEXT, "layer": TEXT, "reason": TEXT}
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
    return document(
        ok=YES_NO,
        outcome=maybe(one_of("invalid", "denied")),
        plan_sha256=maybe(SHA256),
        policy=POLICY,
        steps=many(step),
        faults=many(_FAULT),
    )


def _exec() -> Schema:
    encoding = one_of("utf-8", "escaped")
    return document(
        policy=POLICY,
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
        stdout_sha256=SHA256,
        stderr_sha256=SHA256,
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
    return document(runs=many(row))


def _image(optional: dict[str, Schema] | None = None) -> Schema:
    return document(
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
    return document(images=many(row))


def _doctor() -> Schema:
    check = table(check_id=TEXT, state=one_of("ok", "note", "warn", "fail"), found=TEXT, advice=TEXT, command=TEXT)
    return document({"next": TEXT}, works=YES_NO, checks=many(check))


def _verify() -> Schema:
    probe = table({"pass": YES_NO}, id=TEXT, promise=TEXT, tried=TEXT, happened=TEXT)
    return document(holds=YES_NO, duration_s=NUMBER, policy=POLICY, probes=many(probe))


def _trace() -> Schema:
    event = table(seq=COUNT, time=TEXT, kind=TEXT, data=ANYTHING, prev=TEXT, sha256=TEXT)
    return document(run_id=TEXT, events=many(event))


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
    return document(run_id=TEXT, outcome=maybe(TEXT), seconds=NUMBER, steps=many(step), problems=many(TEXT))


def _config() -> Schema:
    value: Schema = {"type": ["string", "array", "null"]}
    return document(settings={"type": "object", "additionalProperties": table(value=value, origin=TEXT)})


def _changes() -> Schema:
    change: Schema = {
        "type": "object",
        "required": ["path", "kind", "entry", "mode", "size", "sha256", "stored", "before", "runs_on_your_machine"],
    }
    return document(
        run_id=TEXT, folder=TEXT, changes=many(change), omitted=many(table(path=TEXT, reason=TEXT)), omitted_count=COUNT
    )


def _applied() -> Schema:
    return document(
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
    return document(policy=ANYTHING, sha256=SHA256, origin=ANYTHING, layers=many(layer))


def _policy_test() -> Schema:
    row = table(rule=TEXT, example=TEXT, expected=TEXT, ok=YES_NO, verdict=TEXT, decided_by=TEXT, reason=TEXT)
    return document(ok=YES_NO, examples=many(row))


def _explain() -> Schema:
    step = table(argv=many(TEXT), via=TEXT, risk=TEXT, **_VERDICT)
    return document(risk=TEXT, steps=many(step), **_VERDICT)


def _dry_copy() -> Schema:
    entry = table(path=TEXT, kind=one_of("file", "directory", "link"), size=COUNT)
    return document(
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


_LEFTOVER = table(container_id=TEXT, name=TEXT, state=TEXT, session_id=TEXT)
# By name: the command whose document it is, and the schema, made when it is asked for.
SCHEMAS: dict[str, tuple[str, Callable[[], Schema]]] = {
    "run": ("run, runs show", _run),
    **AGENT_SCHEMAS,
    "error": ("any command that failed before it had a document", _error),
    "check": ("check", _check),
    "exec": ("exec", _exec),
    "dry-copy": ("run --dry-copy", _dry_copy),
    "runs": ("runs list", _runs),
    "output": (
        "runs output",
        lambda: document(
            run_id=TEXT,
            index=COUNT,
            stream=one_of("stdout", "stderr", "both"),
            state=one_of("finished", "running", "interrupted"),
            lines=many(TEXT),
        ),
    ),
    "pruned": ("runs prune", lambda: document(dry_run=YES_NO, removed=many(TEXT), kept=COUNT, improvements=many(TEXT))),
    "trace": ("trace show", _trace),
    "trace-replay": ("trace replay", _replay),
    "trace-verify": (
        "trace verify",
        lambda: document(
            run_id=TEXT,
            ok=YES_NO,
            events=COUNT,
            head=TEXT,
            problem=TEXT,
            line=maybe(COUNT),
            cut=YES_NO,
            differences=many(TEXT),
        ),
    ),
    "changes": ("changes show", _changes),
    "applied": ("changes apply", _applied),
    "policy": ("the policy file itself; policy schema", _policy),
    "policy-show": ("policy show", _policy_show),
    "policy-check": (
        "policy check",
        lambda: document(ok=YES_NO, name=TEXT, sha256=SHA256, source=TEXT, warnings={"type": "array"}),
    ),
    "policy-explain": ("policy explain", _explain),
    "policy-test": ("policy test", _policy_test),
    "config": ("config show", _config),
    "images": ("image list", _images),
    "image": ("image show, build, pull, import", lambda: _image({"labels": ANYTHING})),
    "image-removed": ("image remove", lambda: document(removed=many(TEXT))),
    "image-export": ("image export", lambda: document(file=TEXT, sha256=SHA256, size=COUNT, image=_image())),
    "doctor": ("doctor", _doctor),
    "verify": ("verify", _verify),
    "gc": ("gc", lambda: document(dry_run=YES_NO, found=many(_LEFTOVER), removed=many(TEXT))),
}


def schema(name: str) -> Schema:
    """Return a schema by its name. Raises KeyError."""
    _, make = SCHEMAS[name]
    return {"$schema": DIALECT, "title": f"mindx {name}", **make()}
