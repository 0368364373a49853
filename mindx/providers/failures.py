"""What each failure of a model endpoint means to us: the one table of SDK classes and HTTP statuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindx.core.output import plain_text
from mindx.errors import ProviderError

MAX_SERVER_TEXT = 500  # characters of a server's own words that go into a message


@dataclass(frozen=True, slots=True)
class Failure:
    """One kind of failure: its code, whether the same call may succeed later, and what to tell the user."""

    code: str
    recoverable: bool
    advice: str
    quotes_server: bool = True


_KINDS = (
    Failure("provider_not_installed", False, "the `openai` package is missing: install `mindx[openai]`"),
    Failure(
        "provider_key_missing",
        False,
        "no API key: set MINDX_API_KEY, MINDX_BASE_URL and MINDX_MODELS in the environment or in .env",
        False,
    ),
    Failure("provider_settings_invalid", False, "the provider's settings cannot be used"),
    Failure("provider_auth", False, "the endpoint refuses the API key: check MINDX_API_KEY", False),
    Failure("provider_forbidden", False, "the API key may not use this model or endpoint", False),
    Failure("provider_not_found", False, "no such endpoint or model: check MINDX_BASE_URL and MINDX_MODELS"),
    Failure(
        "provider_redirected", False, "the endpoint redirects, which is not followed: correct MINDX_BASE_URL", False
    ),
    Failure("provider_bad_request", False, "the endpoint refuses the request"),
    Failure("provider_context_too_long", False, "the request is longer than the model's context"),
    Failure("provider_content_filtered", False, "the endpoint's content filter refuses the request or the answer"),
    Failure("provider_rate_limited", True, "the endpoint's rate limit is reached: wait, then try again"),
    Failure("provider_quota", False, "the account has no quota left"),
    Failure("provider_overloaded", True, "the endpoint is overloaded: try again later"),
    Failure("provider_server_error", True, "the endpoint failed on its side"),
    Failure("provider_unreachable", True, "the endpoint cannot be reached: check MINDX_BASE_URL and the network"),
    Failure("provider_timeout", True, "the endpoint did not answer in time"),
    Failure("provider_interrupted", True, "the endpoint ended its answer in the middle"),
    Failure("provider_malformed_answer", True, "the endpoint's answer is not of the promised form"),
    Failure("provider_answer_too_large", False, "the endpoint's answer is larger than what is read"),
    Failure("provider_no_match", False, "no provider has what the request needs"),
    Failure("provider_closed", False, "the provider is closed"),
    Failure("provider_unsupported", False, "the SDK reports a use that mindx does not make"),
    Failure("script_exhausted", False, "the scripted provider has no turn left"),
    Failure("script_invalid", False, "the script of turns cannot be used"),
    Failure("cassette_corrupt", False, "the cassette cannot be read"),
    Failure("cassette_miss", False, "the cassette holds no answer to this request: record it again"),
    Failure("cassette_unwritable", False, "the cassette cannot be written"),
)
FAILURES: Mapping[str, Failure] = {kind.code: kind for kind in _KINDS}

# Every exception class of the SDK by its name, so that this table needs no SDK; the nearest base class counts.
BY_CLASS: Mapping[str, str] = {
    "OpenAIError": "provider_settings_invalid",
    "APIError": "provider_server_error",
    "APIResponseValidationError": "provider_malformed_answer",
    "APIStatusError": "provider_server_error",
    "APIConnectionError": "provider_unreachable",
    "APITimeoutError": "provider_timeout",
    "BadRequestError": "provider_bad_request",
    "AuthenticationError": "provider_auth",
    "OAuthError": "provider_auth",
    "SubjectTokenProviderError": "provider_auth",
    "PermissionDeniedError": "provider_forbidden",
    "NotFoundError": "provider_not_found",
    "ConflictError": "provider_overloaded",
    "UnprocessableEntityError": "provider_bad_request",
    "RateLimitError": "provider_rate_limited",
    "InternalServerError": "provider_server_error",
    "LengthFinishReasonError": "provider_malformed_answer",
    "ContentFilterFinishReasonError": "provider_content_filtered",
    "InvalidWebhookSignatureError": "provider_unsupported",
    "WebSocketConnectionClosedError": "provider_unsupported",
    "WebSocketQueueFullError": "provider_unsupported",
    # Of the HTTP client below the SDK, which shows through while a stream is read.
    "TimeoutException": "provider_timeout",
    "RequestError": "provider_interrupted",
    "StreamError": "provider_interrupted",
    "InvalidURL": "provider_settings_invalid",
    "UnsupportedProtocol": "provider_settings_invalid",
    # Of the standard library: a body that is no JSON, or no text.
    "JSONDecodeError": "provider_malformed_answer",
    "UnicodeDecodeError": "provider_malformed_answer",
    "RecursionError": "provider_malformed_answer",
    "TimeoutError": "provider_timeout",
    "OSError": "provider_unreachable",
}

# The status says more than the class where they differ; 529 is what some endpoints answer when overloaded.
BY_STATUS: Mapping[int, str] = {
    400: "provider_bad_request",
    401: "provider_auth",
    402: "provider_quota",
    403: "provider_forbidden",
    404: "provider_not_found",
    405: "provider_not_found",
    408: "provider_timeout",
    409: "provider_overloaded",
    410: "provider_not_found",
    413: "provider_context_too_long",
    422: "provider_bad_request",
    425: "provider_overloaded",
    429: "provider_rate_limited",
    502: "provider_overloaded",
    503: "provider_overloaded",
    504: "provider_timeout",
    529: "provider_overloaded",
}

# The `code` or `type` of the error's body, as the field's endpoints write it, says more than the status.
BY_BODY: Mapping[str, str] = {
    "context_length_exceeded": "provider_context_too_long",
    "string_above_max_length": "provider_context_too_long",
    "insufficient_quota": "provider_quota",
    "billing_hard_limit_reached": "provider_quota",
    "content_filter": "provider_content_filtered",
    "content_policy_violation": "provider_content_filtered",
    "invalid_api_key": "provider_auth",
    "model_not_found": "provider_not_found",
    "rate_limit_exceeded": "provider_rate_limited",
    "server_overloaded": "provider_overloaded",
    "overloaded_error": "provider_overloaded",
    "server_error": "provider_server_error",
}


def provider_error(code: str, what: str = "", **details: Any) -> ProviderError:
    """Return the error of a kind; `what` says on what it failed, `details` are plain values without secrets."""
    kind = FAILURES[code]
    message = f"{what}: {kind.advice}" if what else kind.advice
    return ProviderError(code, message, recoverable=kind.recoverable, details=details)


def failure_code(error: BaseException) -> str | None:
    """Return the code for what the SDK raised, or None when it is not from there (a fault of our own)."""
    body = getattr(error, "body", None)
    if isinstance(body, Mapping):
        for name in ("code", "type"):
            known = BY_BODY.get(str(body.get(name)))
            if known:
                return known
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and not isinstance(status, bool):
        return status_code(status) or _by_class(error)
    return _by_class(error)


def status_code(status: int) -> str | None:
    """Return the code of an HTTP status, or None for a success."""
    if status in BY_STATUS:
        return BY_STATUS[status]
    if 300 <= status < 400:
        return "provider_redirected"
    if 400 <= status < 500:
        return "provider_bad_request"
    return "provider_server_error" if status >= 500 else None


def _by_class(error: BaseException) -> str | None:
    for base in type(error).__mro__:
        if base.__name__ in BY_CLASS:
            return BY_CLASS[base.__name__]
    return None


def server_text(error: BaseException, secrets: tuple[str, ...] = ()) -> str:
    """Return the endpoint's own words, made fit to be shown: escaped, capped, without the given secrets."""
    body = getattr(error, "body", None)
    text = body.get("message") if isinstance(body, Mapping) else None
    if not isinstance(text, str):
        text = str(getattr(error, "message", "") or "")
    text = plain_text(text[: 4 * MAX_SERVER_TEXT])
    for secret in secrets:
        text = text.replace(secret, "[redacted]")
    return text if len(text) <= MAX_SERVER_TEXT else text[:MAX_SERVER_TEXT] + "..."
