"""The control of the tests themselves: in fresh containers that the candidate has never been in.

An empty file in the candidate's place must fail the tests, or they say nothing about it; and what was skipped with the
candidate must be skipped without it too, or the candidate has skipped it.
"""

from __future__ import annotations

from collections.abc import Callable

from mindx.agents.improvement.evaluation import passes_tests
from mindx.agents.improvement.models import TOOL_TEST_FILE, ImprovementRequest
from mindx.runtime.session import Session

MAX_TOLD = 3


async def tests_problem(
    open_session: Callable[[], Session], request: ImprovementRequest, path: str, tests: str, left_out: frozenset[str]
) -> str:
    """Return why the tests that a candidate has passed cannot be relied on, or "".

    `tests` is the module of tests that came with the candidate, "" for none; `left_out` names what was skipped.
    Raises SandboxError, DeniedError.
    """
    async with open_session() as session:
        await write(session, path, "", tests)
        if (await passes_tests(session, request)).passed:
            return f"an empty {path} passes the tests too; they must test what it does"
    if not left_out:
        return ""
    async with open_session() as session:
        if tests:
            await session.write(TOOL_TEST_FILE, tests)
        without = await passes_tests(session, request)
    skipped = sorted(left_out - without.left_out)
    return f"tests are skipped with the candidate alone: {', '.join(skipped[:MAX_TOLD])}" if skipped else ""


async def write(session: Session, path: str, content: str, tests: str) -> None:
    """Put a candidate and the tests that came with it into the workspace."""
    folder = path.rpartition("/")[0]
    if folder:
        await session.mkdir(folder)
    await session.write(path, content)
    if tests.strip():
        await session.write(TOOL_TEST_FILE, tests)
