"""SimpleCoder: files, programs and virtual environments in the sandbox, with a current directory and variables.

It does and never plans. Every call lowers to Commands first (simple_coder_lower), and exactly these are sent.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from mindx.core.action import ActionRisk
from mindx.core.observation import Status
from mindx.core.quote import quoted
from mindx.errors import DeniedError, FileError
from mindx.sandbox.base import Sandbox
from mindx.tools import simple_coder_args as args
from mindx.tools.base import ToolDefinition
from mindx.tools.command_tool import CallError, CommandTool, Lowered, ParamFault, ToolOutcome, denial, refusal
from mindx.tools.param_faults import param_faults
from mindx.tools.simple_coder_definition import coder_definition
from mindx.tools.simple_coder_lower import CoderSettings, absolute_path_faults, lower_call, unknown_command
from mindx.tools.simple_coder_state import CoderState, relative
from mindx.tools.simple_coder_steps import FILE_TROUBLE, RESULT_FIELDS, Outcome, Step, error, take

LOG = logging.getLogger("tool.SimpleCoder")
TOOL_ID = "simple_coder"


class SimpleCoder(CommandTool[args.Call, CoderState]):
    """The tool. `settings` are the operator's."""

    def __init__(self, settings: CoderSettings | None = None) -> None:
        self.settings = settings or CoderSettings()

    @property
    def tool_id(self) -> str:
        """The name in plans."""
        return TOOL_ID

    @cached_property
    def definition(self) -> ToolDefinition:  # type: ignore[override]
        """The commands as one function."""
        return coder_definition(TOOL_ID, self.describe())

    @property
    def least_risk(self) -> ActionRisk:
        """Some commands only look."""
        return ActionRisk.READ_ONLY

    def describe(self) -> str:
        """Return the commands with their arguments, one a line."""
        rows = [(model.signature(), model.summary()) for model in args.COMMANDS.values()]
        width = max(len(signature) for signature, _ in rows if len(signature) <= 40)
        return "\n".join(f"{signature:<{width}}  {summary}" for signature, summary in rows)

    def initial_state(self, autonomous: bool = False) -> CoderState:
        """Return a clean state: the workspace, no virtual environment, no variables."""
        return CoderState(autonomous=autonomous)

    def result_fields(self, arguments: Mapping[str, Any]) -> frozenset[str] | None:
        """Return the names in the result of a command, None for one that is not known."""
        return RESULT_FIELDS.get(str(arguments.get("command")))

    def validate(self, params: Mapping[str, Any]) -> args.Call:
        """Return the call for flat params, such as `{"command": "ls", "path": "src"}`. Raises CallError."""
        arguments = dict(params)
        command = arguments.pop("command", None)
        if not isinstance(command, str):
            raise CallError([ParamFault("", "`command` is missing", f"one of {', '.join(args.COMMANDS)}")])
        model = args.COMMANDS.get(command)
        if model is None:
            raise CallError([unknown_command(command)])
        try:
            return model.model_validate(arguments)
        except ValidationError as error:
            faults = param_faults(error, model)
            if "path" in model.model_fields and not any(fault.path == ".path" for fault in faults):
                faults += absolute_path_faults(arguments.get("path"))
            raise CallError(faults) from None

    def lower(self, call: args.Call, state: CoderState) -> Lowered[CoderState]:
        """Return the call's Commands and next state. Raises CallError."""
        return lower_call(call, state, self.settings)

    async def do(self, call: args.Call, state: CoderState, sandbox: Sandbox) -> Outcome:
        """Do it; see CommandTool.do. A refusal or a failure leaves the state as it was."""
        try:
            outcome = await take(
                Step(call, state, self.lower(call, state), sandbox, self.describe, self.settings.timeout_s)
            )
        except CallError as refused:
            outcome = refusal(refused, state)
        except DeniedError as denied:
            message = denial(str(denied.details.get("rule", "")), denied.message)
            outcome = ToolOutcome(Status.DENIED, {"status": "ERROR", "message": message}, state)
        except FileError as trouble:
            given = getattr(call, "path", None) or getattr(call, "venv_name", None) or relative(str(trouble.filename))
            sentence = FILE_TROUBLE.get(trouble.errno or 0) or os.strerror(trouble.errno or 0)
            outcome = error(state, f"{quoted(given)}: {sentence}")
        if outcome.status in (Status.ERROR, Status.DENIED):
            LOG.warning("%s refused or failed: %s", call.command, outcome.message)
        return outcome
