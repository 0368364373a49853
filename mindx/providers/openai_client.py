"""The `openai` package's client, set up so that it retries nothing, follows nothing and reads no more than a limit."""

from __future__ import annotations

from typing import Any

from mindx.providers.failures import provider_error
from mindx.providers.param import OpenAIProviderParam

MAX_ANSWER_BYTES = 32 * 1024 * 1024


def open_client(param: OpenAIProviderParam, max_answer_bytes: int = MAX_ANSWER_BYTES) -> Any:
    """Return an AsyncOpenAI. Raises ProviderError (provider_not_installed) without the package."""
    try:
        import openai

        from mindx.core.capped_stream import CappedStream
    except ImportError:
        missing = True
    else:
        missing = False
    if missing:
        raise provider_error("provider_not_installed")

    async def cap(response: Any) -> None:
        # A few compressed kilobytes can hold gigabytes; none was asked for.
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise provider_error("provider_malformed_answer", "a compressed answer")
        response.stream = CappedStream(response.stream, max_answer_bytes, too_large)

    def too_large() -> Exception:
        return provider_error("provider_answer_too_large", f"more than {max_answer_bytes:,} bytes")

    client = openai.AsyncOpenAI(
        api_key=param.api_key.get_secret_value(),
        base_url=param.base_url,
        max_retries=0,
        timeout=param.timeout_s,
        default_headers={"Accept-Encoding": "identity"},
        # A redirect could carry the request, with all that was read in a workspace, to another host.
        http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False, event_hooks={"response": [cap]}),
    )
    # The SDK takes these from the environment; they belong to another endpoint than the one that is set here.
    client.organization = client.project = client.admin_api_key = None
    return client
