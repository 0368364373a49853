"""The memory of a session's Verdicts: a command line that comes again is not judged anew."""

from __future__ import annotations

from mindx.core.command import Command, Exec
from mindx.core.verdict import Verdict
from mindx.policy.engine import PolicyEngine

MAX_VERDICTS, MAX_WORDS, MAX_CHARS = 512, 16, 1024  # what is remembered, and how long it may be


class VerdictMemory:
    """Judges Commands by an engine, and remembers the Verdicts on short command lines.

    An engine is pure and its policy does not change, so the same Exec has the same Verdict. What has variables or
    standard input, and file operations (which depend on the operator's grant as well), are judged every time.
    """

    def __init__(self, engine: PolicyEngine) -> None:
        self._engine = engine
        self._known: dict[tuple[object, ...], Verdict] = {}

    def __len__(self) -> int:
        return len(self._known)

    def judge(self, command: Command) -> Verdict:
        """Return the Verdict, as the engine gives it."""
        if not isinstance(command, Exec) or command.env or command.stdin or len(command.argv) > MAX_WORDS:
            return self._engine.judge(command)
        asked = (command.argv, command.cwd, command.executable, command.timeout_s, command.max_output_bytes)
        known = self._known.get(asked)
        if known is None:
            known = self._engine.judge(command)
            if len(self._known) < MAX_VERDICTS and sum(map(len, command.argv)) <= MAX_CHARS:
                self._known[asked] = known
        return known
