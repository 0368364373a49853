"""The JSON Schemas of what agents and their society print: work, missions, campaigns, beliefs, tools, requests."""

from __future__ import annotations

from collections.abc import Callable

from mindx.cli.schema_terms import (
    ANYTHING,
    COUNT,
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


_CHANGE = table(path=TEXT, kind=TEXT, entry=TEXT, mode=TEXT, size=COUNT, sha256=TEXT, stored=YES_NO, note=TEXT)


def _agent() -> Schema:
    from mindx.core.agent_error import ErrorCode, ErrorPhase
    from mindx.core.checkpoint import RunOutcome

    codes, phases = one_of(*(code.value for code in ErrorCode)), one_of(*(phase.value for phase in ErrorPhase))
    detail = table(code=codes, message=TEXT, phase=phases, recoverable=YES_NO, details=ANYTHING)
    of_bdi = {"mind": TEXT, "status": TEXT, "goal_id": TEXT, "plan_ids": many(TEXT), "cycles": COUNT}
    return document(
        of_bdi,
        run_id=TEXT,
        outcome=one_of(*(outcome.value for outcome in RunOutcome)),
        final_answer=TEXT,
        error=maybe(detail),
        steps=COUNT,
        actions=COUNT,
        usage=ANYTHING,
        duration_s=NUMBER,
        changes=many(_CHANGE),
        trace=TEXT,
    )


def _mission_row() -> Schema:
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
    return table(
        mission_id=TEXT,
        directive=TEXT,
        workspace=maybe(TEXT),
        created_at=NUMBER,
        updated_at=NUMBER,
        status=one_of(*(status.value for status in AGIntStatus)),
        awareness=TEXT,
        message=TEXT,
        phases=many(phase),
        decisions=many(one_of(*(decision.value for decision in AGIntDecision))),
        cycles=COUNT,
        tokens=COUNT,
        seconds=NUMBER,
    )


def _mission() -> Schema:
    failure = table(code=TEXT, message=TEXT, phase=TEXT, recoverable=YES_NO, details=ANYTHING)
    return document(
        **_mission_row()["properties"],
        error=maybe(failure),
        run_id=TEXT,
        changes=many(_CHANGE),
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
    return document(**row["properties"])


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
    return document(revision=COUNT, tools=many(row))


def _tool() -> Schema:
    from mindx.cli.tools import ToolDocument

    return ToolDocument.model_json_schema(mode="serialization")


def _tool_test() -> Schema:
    call = table(capability=TEXT, arguments=ANYTHING, ok=YES_NO, answer={}, message=TEXT, duration_s=NUMBER)
    return document(tool_id=TEXT, version=TEXT, sha256=SHA256, ok=YES_NO, policy=POLICY, calls=many(call))


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
    return document(
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


# By name: the command whose document it is, and the schema, made when it is asked for.
AGENT_SCHEMAS: dict[str, tuple[str, Callable[[], Schema]]] = {
    "agent": ("agent", _agent),
    "tasks": (
        "task list",
        lambda: document(
            tasks=many(
                table(task_id=TEXT, objective=TEXT, workspace=maybe(TEXT), status=TEXT, runs=COUNT, created_at=TEXT)
            )
        ),
    ),
    "beliefs": ("beliefs list", lambda: document(beliefs=many(_BELIEF), more=YES_NO)),
    "belief": ("beliefs show", lambda: document(belief=_BELIEF)),
    "mission": ("mission", _mission),
    "missions": ("missions list", lambda: document(missions=many(_mission_row()))),
    "mission-show": ("missions show", lambda: document(**_mission_row()["properties"])),
    "campaign": ("campaign run, show", _campaign),
    "campaigns": ("campaign list", lambda: document(campaigns=many(_campaign_row()))),
    "tools": ("tools list", _tools),
    "tool": ("tools show, deprecate", _tool),
    "tool-test": ("tools test", _tool_test),
    "coordinator-status": ("coordinator status", _coordinator_status),
    "coordinator-backlog": ("coordinator backlog", _shown_by_coordinator("BacklogDocument")),
    "coordinator-item": ("coordinator backlog ITEM, approve, reject", _shown_by_coordinator("ItemDocument")),
    "coordinator-interaction": ("coordinator rollback, work", _shown_by_coordinator("InteractionDocument")),
}
