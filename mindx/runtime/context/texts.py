"""How tasks, results and images are put into words for a model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from mindx.core.checkpoint import TaskState
from mindx.core.count import counted
from mindx.core.decision import AgentDecision, DecisionKind
from mindx.core.message import ChatMessage, ImagePart, ToolCall
from mindx.core.observation import Observation
from mindx.core.output import plain_text, plain_value
from mindx.errors import InputError

SEE_FIRST = "See the answer to the first call."
MAX_IMAGE_URL_CHARS = 28 * 1024 * 1024  # 20 MiB as base64
_NAMES = ("http://", "https://", "data:image/")


def task_text(task: str, state: TaskState) -> str:
    """Return the task with what else must be known of it; the bare task when there is nothing."""
    lines = [task]
    if state.objective and state.objective != task:
        lines.append(f"The objective of the whole work: {state.objective}")
    if state.constraints:
        lines += ["Rules that the work must keep:", *(f"- {item.description}" for item in state.constraints)]
    if state.criteria:
        lines.append("The work is complete when this holds; cite the evidence ids for each when you complete it:")
        lines += [
            f"- {item.criterion_id}: {item.description}{'' if item.required else ' (optional)'}"
            for item in state.criteria
        ]
    if state.progress_summary:
        lines.append(f"Done so far: {state.progress_summary}")
    if state.next_step:
        lines.append(f"The next step was to be: {state.next_step}")
    if state.unknown_action_ids:
        named = ", ".join(state.unknown_action_ids)
        lines.append(
            f"These actions were started and their end was never recorded: {named}. Look at what they did before you "
            "do anything like them again."
        )
    return plain_text("\n".join(lines))


def observation_text(observation: Observation) -> str:
    """Return what a model reads of an Observation, as JSON."""
    told: dict[str, Any] = {"status": observation.status.value}
    if observation.value is not None:
        told["value"] = observation.value
    if observation.result:
        told["result"] = observation.result
    if observation.message:
        told["message"] = observation.message
    error = observation.error_info
    if error is not None:
        told["error"] = {"code": error.code.value, "message": error.message, "recoverable": error.recoverable}
    evidence = [item.evidence_id for item in observation.evidence if item.valid]
    if evidence:
        told["evidence_ids"] = evidence
    return json.dumps(_plain(told), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {plain_text(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return plain_value(value)


def capped(text: str, limit: int) -> str:
    """Return the text with its middle left out when it is longer than `limit` characters, and a mark that says so."""
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    mark = f"\n[{len(text):,} characters in all, the middle is left out, sha256 {digest}]\n"
    half = max((limit - len(mark)) // 2, 0)
    return f"{text[:half]}{mark}{text[len(text) - half :]}"


def left_out_note(bundles: int) -> str:
    """Return the message that stands where history was left out; it is the same for a whole epoch."""
    return f"[Left out here, as it no longer fits: {counted(bundles, 'earlier part')} of this conversation.]"


def image_parts(value: Any, most: int) -> list[ImagePart]:
    """Return the images that a caller gave. Raises InputError (image_invalid)."""
    if value is None:
        return []
    if not isinstance(value, (list, tuple)) or len(value) > most:
        raise InputError("image_invalid", f"`images` is a list of at most {most} URLs")
    return [_image(item) for item in value]


def _image(value: Any) -> ImagePart:
    url = value.get("url") if isinstance(value, Mapping) else value
    detail = str(value.get("detail", "auto")) if isinstance(value, Mapping) else "auto"
    if not isinstance(url, str) or not url.startswith(_NAMES) or detail not in ("auto", "low", "high"):
        raise InputError("image_invalid", "an image is an http(s) URL or a data URL of an image")
    if len(url) > MAX_IMAGE_URL_CHARS:
        raise InputError("image_invalid", f"an image's URL has at most {MAX_IMAGE_URL_CHARS:,} characters")
    return ImagePart(url, detail)


def observation_images(observation: Observation) -> list[ImagePart]:
    """Return the images that an Action made and that carry their own data.

    An address is left out: the endpoint would fetch it, and what an Action wrote into it would go out.
    """
    return [
        ImagePart(item.uri)
        for item in observation.artifacts
        if item.media_type.startswith("image/")
        and item.uri.startswith("data:image/")
        and len(item.uri) <= MAX_IMAGE_URL_CHARS
    ]


def with_calls(decision: AgentDecision) -> ChatMessage:
    """Return the assistant's message of a decision: the model's own, or one made for it."""
    if decision.message is not None:
        return decision.message
    if decision.batch is not None:
        calls = tuple(ToolCall(item.call_id or item.action_id, item.name, item.arguments) for item in decision.batch)
        return ChatMessage.assistant(decision.text, calls)
    if decision.kind is DecisionKind.ASK_USER and decision.question is not None:
        return ChatMessage.assistant(decision.question.question)
    return ChatMessage.assistant(decision.text or (decision.claim.summary if decision.claim else ""))
