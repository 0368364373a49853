"""time_now: what time it is, in any IANA time zone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mindx.core.action import ActionRisk
from mindx.core.quote import quoted
from mindx.tools.base import BaseTool, ToolDefinition, ToolError
from mindx.tools.context import ToolContext


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


class TimeNowTool(BaseTool):
    """`clock` returns the present time, with a time zone; it is for tests."""

    definition = ToolDefinition(
        name="time_now",
        description="Tell the present date and time in an IANA time zone.",
        parameters={
            "type": "object",
            "properties": {
                "timezone": {"type": "string", "maxLength": 100, "description": "such as Europe/Berlin; default UTC"}
            },
            "additionalProperties": False,
        },
        risk=ActionRisk.READ_ONLY,
    )

    def __init__(self, clock: Callable[[], datetime] = _utc_now) -> None:
        self._clock = clock

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the time as ISO 8601 text, with the zone, its offset, the weekday and the seconds since 1970."""
        name = arguments.get("timezone", "UTC")
        try:
            zone = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: `America` is a folder of zones
            raise ToolError(f"{quoted(name)} is no IANA time zone; write one such as Asia/Shanghai") from None
        now = self._clock().astimezone(zone)
        return {
            "time": now.isoformat(timespec="seconds"),
            "timezone": name,
            "utc_offset": now.strftime("%z"),
            "weekday": now.strftime("%A"),
            "unix_s": int(now.timestamp()),
        }
