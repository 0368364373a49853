"""How endpoints that call themselves compatible differ, told from the 4xx with which they refuse."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mindx.providers.failures import server_text

NO_STREAM_OPTIONS = "no_stream_options"
COMPLETION_TOKENS = "max_completion_tokens"

_NO_SUCH_ENDPOINT = frozenset({404, 405, 410, 415})
_BAD_REQUEST = frozenset({400, 422})
_REFUSAL = r"(unsupported|not supported|not_supported|does ?n[o']t support|unknown|unrecognized|invalid|not allowed)"
_OTHER_INTERFACE = re.compile(r"(?i)\bresponses\b.{0,20}\b(api|endpoint)|v1/responses|unsupported_(endpoint|api)")
_IMAGES = re.compile(
    rf"(?is)(image|vision|multi-?modal|content.{{0,20}}(type|part)).*{_REFUSAL}|{_REFUSAL}.*(image|vision)"
)


def lacks_interface(error: BaseException, *, has_images: bool) -> bool:
    """Return whether a chat completions refusal means: this endpoint, or images on it, are not there.

    Only then is the Responses interface tried. A model that does not exist is no such case.
    """
    status = getattr(error, "status_code", None)
    code, said = _field(error, "code"), server_text(error)
    if _OTHER_INTERFACE.search(f"{code} {said}") and status in _NO_SUCH_ENDPOINT | _BAD_REQUEST:
        return True
    if status in _NO_SUCH_ENDPOINT:
        return code != "model_not_found"
    return has_images and status in _BAD_REQUEST and bool(_IMAGES.search(f"{code} {said}"))


def adjustment_for(error: BaseException) -> str | None:
    """Return what must be sent otherwise after a refusal, None when that would not help."""
    if getattr(error, "status_code", None) not in _BAD_REQUEST:
        return None
    told = f"{_field(error, 'param')} {server_text(error)}"
    if "stream_options" in told or "include_usage" in told:
        return NO_STREAM_OPTIONS
    return COMPLETION_TOKENS if "max_completion_tokens" in told else None


def adjusted(params: Mapping[str, Any], adjustments: set[str]) -> dict[str, Any]:
    """Return the parameters of a chat completion as this endpoint takes them."""
    sent = dict(params)
    if NO_STREAM_OPTIONS in adjustments:
        sent.pop("stream_options", None)
    if COMPLETION_TOKENS in adjustments and "max_tokens" in sent:
        sent["max_completion_tokens"] = sent.pop("max_tokens")
    return sent


def _field(error: BaseException, name: str) -> str:
    body = getattr(error, "body", None)
    return str(body.get(name) or "") if isinstance(body, Mapping) else ""
