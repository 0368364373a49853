"""image_understanding: a question about an image, answered by a model that can see."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

from mindx.core.action import ActionRisk
from mindx.core.evidence import Evidence, EvidenceKind, Provenance
from mindx.errors import DeniedError
from mindx.tools.base import BaseTool, ToolDefinition, ToolError, ToolResult
from mindx.tools.context import ToolContext

MAX_URL = 4096  # characters of an address
MAX_IMAGE_BYTES = 3 * 1024 * 1024  # what fits into an action's arguments
_DATA_URL = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,")
_SIGNATURES = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}


class Answer(Protocol):
    """What a model answered."""

    @property
    def text(self) -> str:
        """The answer."""
        ...

    @property
    def model(self) -> str:
        """The model that gave it."""
        ...


class VisionRouter(Protocol):
    """Sends a question to a model that can see (ProviderRouter does)."""

    async def ask(
        self, prompt: str, images: Sequence[str] = (), *, system: str = "", model: str = "", api: str = ""
    ) -> Answer:
        """Return the answer. Raises ProviderError."""
        ...


class ImageUnderstandingTool(BaseTool):
    """Asks `router` about an image at an http(s) address, or in a data URL.

    An address makes the model's provider fetch it, so it can carry data out: in a session that allows no network only
    data URLs are taken, and the addresses that the user gave with the task (`artifacts["images"]`).
    """

    definition = ToolDefinition(
        name="image_understanding",
        description="Ask a vision model about one image.",
        parameters={
            "type": "object",
            "properties": {
                "image_url": {"type": "string", "minLength": 1, "description": "http(s) address or base64 data URL"},
                "prompt": {"type": "string", "minLength": 1, "maxLength": 20_000, "description": "what to find out"},
                "api": {
                    "type": "string",
                    "enum": ["auto", "chat_completions", "responses"],
                    "description": "the model endpoint's interface; default auto",
                },
            },
            "required": ["image_url"],
            "additionalProperties": False,
        },
        risk=ActionRisk.READ_ONLY,
    )

    def __init__(self, router: VisionRouter, *, model: str = "") -> None:
        self._router = router
        self._model = model

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return `text` and `model`. Raises ToolError, DeniedError (network_denied), ProviderError."""
        url = arguments["image_url"]
        if not url.startswith("data:"):
            _check_address(url)
            if not context.network_allowed and url not in _given(context):
                reason = "this session allows no network, and the user did not give this address; use a data URL"
                raise DeniedError("network_denied", reason, details={"rule": "session.network"})
        else:
            _check_data(url)
        prompt = arguments.get("prompt", "Describe the image.")
        answer = await self._router.ask(prompt, (url,), model=self._model, api=arguments.get("api", "auto"))
        if not answer.text.strip():
            raise ToolError("the model said nothing about the image")
        origin = Provenance(context.run_id, context.action_id, answer.model or self.tool_id)
        found = Evidence(
            f"ev_{context.action_id}", EvidenceKind.VISUAL_FINDING, answer.text[:500], valid=True, provenance=origin
        )
        return ToolResult({"text": answer.text, "model": answer.model}, evidence=(found,))


def _given(context: ToolContext) -> Sequence[str]:
    images = context.artifacts.get("images", ())
    return [item for item in images if isinstance(item, str)] if isinstance(images, (list, tuple)) else []


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ToolError("that is no address of an image") from None
    if len(url) > MAX_URL or parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ToolError("an image has an http(s) address without a name and password in it, or is a data URL")


def _check_data(url: str) -> None:
    match = _DATA_URL.match(url)
    if match is None:
        raise ToolError("a data URL of an image begins with data:image/png;base64, (or jpeg, gif, webp)")
    try:
        data = base64.b64decode(url[match.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise ToolError("the data URL is no sound base64") from None
    if len(data) > MAX_IMAGE_BYTES:
        raise ToolError(f"the image has {len(data):,} bytes; at most {MAX_IMAGE_BYTES:,} are taken")
    if not data.startswith(_SIGNATURES[match.group(1)]):
        raise ToolError(f"the data is no {match.group(1)}")
