"""The completion gate: a claim holds when every required criterion rests on evidence that is there and valid."""

from __future__ import annotations

from mindx.core.agent_context import AgentContext
from mindx.core.decision import CompletionClaim, CompletionValidationResult
from mindx.core.evidence import Evidence, EvidenceKind, Provenance
from mindx.core.observation import Observation
from mindx.core.quote import quoted


class DefaultCompletionGate:
    """Takes a completion when each required AcceptanceCriterion cites at least one piece of evidence and all are valid.

    Without criteria nothing has to be cited; what is cited all the same must be there.
    """

    async def check(
        self, claim: CompletionClaim | None, text: str, context: AgentContext
    ) -> CompletionValidationResult:
        """Return accepted, or every problem."""
        cited = {} if claim is None else claim.cited
        problems: list[str] = []
        for criterion in context.task_state.criteria:
            if criterion.required and not cited.get(criterion.criterion_id):
                what = criterion.description or criterion.criterion_id
                problems.append(f"no evidence is cited for {quoted(criterion.criterion_id)}: {what}")
        known = {criterion.criterion_id for criterion in context.task_state.criteria}
        for name, evidence_ids in cited.items():
            if known and name not in known:
                problems.append(f"{quoted(name)} is no criterion of this task")
            problems += [problem for item in evidence_ids if (problem := _problem(item, context.evidence))]
        return CompletionValidationResult(not problems, tuple(problems))


def _problem(evidence_id: str, known: dict[str, Evidence]) -> str:
    evidence = known.get(evidence_id)
    if evidence is None:
        return f"there is no evidence {quoted(str(evidence_id))}"
    return (
        "" if evidence.valid else f"the evidence {quoted(evidence_id)} is not valid: {evidence.summary or 'it failed'}"
    )


def evidence_of(observation: Observation, run_id: str, source: str, *, verifies: bool = False) -> Evidence:
    """Return the evidence that an Observation is by itself; its id is `ev_` and the action_id.

    A program's is valid only for exit code 0 within its deadline, a verification's only when it says so.
    """
    valid = observation.ok
    if observation.execution is not None:
        kind = EvidenceKind.COMMAND_RESULT
        valid = valid and observation.execution.ok
    elif observation.ok:
        kind = EvidenceKind.ACTION_RESULT
    else:
        kind = EvidenceKind.ERROR
    if verifies and kind is not EvidenceKind.ERROR:
        kind = EvidenceKind.VERIFICATION
        valid = valid and observation.result.get("verified", observation.execution is not None) is True
    summary = observation.message if observation.ok else observation.error or ""
    origin = Provenance(run_id, observation.action_id, source)
    return Evidence(f"ev_{observation.action_id}", kind, summary[:500], valid, origin)
