"""Cassettes: a provider's answers recorded to a file, and a provider that answers from it without network."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping
from pathlib import Path
from typing import Any

from mindx.core.quote import quoted
from mindx.errors import ProviderError
from mindx.providers.base import BaseProvider, ModelRequest, ProviderResponse, ProviderStreamChunk
from mindx.providers.failures import FAILURES, provider_error

FORMAT = "mindx-cassette"
VERSION = 1
MAX_CASSETTE_BYTES = 64 * 1024 * 1024
REDACTED = "[redacted]"
# What a key looks like, wherever it stands: a header, or the prefixes that services give to their keys.
_KEYS = re.compile(r"(?i)\bbearer\s+[\w.~+/=-]{8,}|\b(?:sk|pk|rk|xox[abprs]|gh[opsu]|glpat)[-_][\w-]{12,}")

Answer = ProviderResponse | ProviderError


def request_digest(request: ModelRequest) -> str:
    """Return the SHA-256 by which an answer is found again."""
    text = json.dumps(request.to_dict(), sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class RecordingProvider(BaseProvider):
    """Passes requests on to `inner` and appends each answer, and each failure, to the cassette at `path`.

    `secrets` are texts that never reach the file; what looks like a key does not either. Raises ProviderError
    (cassette_unwritable).
    """

    def __init__(self, inner: BaseProvider, path: str | os.PathLike[str], *, secrets: Iterable[str] = ()) -> None:
        self.inner = inner
        self.name, self.models, self.capabilities = inner.name, inner.models, inner.capabilities
        self.path = Path(path)
        self._secrets = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        self._begun = False

    async def generate(self, request: ModelRequest) -> ProviderResponse:
        """Return `inner`'s answer. Raises its ProviderError."""
        try:
            response = await self.inner.generate(request)
        except ProviderError as error:
            self._write(request, error)
            raise
        self._write(request, response)
        return response

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderStreamChunk, None]:
        """Yield `inner`'s answer in pieces; an answer that is not read to its end is not recorded."""
        try:
            async for chunk in self.inner.stream(request):
                if chunk.response is not None:
                    self._write(request, chunk.response)
                yield chunk
        except ProviderError as error:
            self._write(request, error)
            raise

    async def close(self) -> None:
        """Close `inner`."""
        await self.inner.close()

    def _write(self, request: ModelRequest, answer: Answer) -> None:
        entry: dict[str, Any] = {"request_sha256": request_digest(request), "request": request.to_dict()}
        if isinstance(answer, ProviderError):
            entry["error"] = {"code": answer.code, "message": answer.message}
        else:
            entry["response"] = answer.to_dict()
        try:
            self._append(_line(self._redacted(entry)))
        except OSError as error:
            problem = f"{quoted(str(self.path))}: {error.strerror}"
        else:
            return
        raise provider_error("cassette_unwritable", problem)

    def _append(self, line: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        handle = os.open(self.path, flags if self._begun else flags | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "ab") as stream:
            if not self._begun:
                stream.write(_line({"format": FORMAT, "version": VERSION}))
            stream.write(line)
        self._begun = True

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, REDACTED)
            return _KEYS.sub(REDACTED, value)
        if isinstance(value, Mapping):
            return {str(name): self._redacted(item) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._redacted(item) for item in value]
        return value


class ReplayProvider(BaseProvider):
    """Answers from a cassette: the same request gets the recorded answers in their order, then the last one again.

    Raises ProviderError: cassette_corrupt from the constructor, cassette_miss for a request that was never recorded.
    """

    def __init__(self, path: str | os.PathLike[str], *, name: str = "replay", models: Iterable[str] = ()) -> None:
        self.name = name
        self.models = tuple(models)
        self.path = Path(path)
        self._answers: dict[str, deque[Answer]] = {}
        for digest, answer in read_cassette(path):
            self._answers.setdefault(digest, deque()).append(answer)

    async def generate(self, request: ModelRequest) -> ProviderResponse:
        """Return the recorded answer. Raises the recorded ProviderError, or cassette_miss."""
        answers = self._answers.get(request_digest(request))
        if not answers:
            raise provider_error("cassette_miss", quoted(str(self.path)), request_sha256=request_digest(request))
        answer = answers.popleft() if len(answers) > 1 else answers[0]
        if isinstance(answer, ProviderError):
            raise ProviderError(answer.code, answer.message, recoverable=answer.recoverable)
        return answer


def read_cassette(path: str | os.PathLike[str]) -> list[tuple[str, Answer]]:
    """Return digest and answer of each entry. Raises ProviderError (cassette_corrupt) that names the line."""
    file = Path(path)
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_CASSETTE_BYTES + 1)
    except OSError as error:
        raise provider_error("cassette_corrupt", f"{quoted(str(file))}: {error.strerror}") from error
    if len(data) > MAX_CASSETTE_BYTES:
        raise provider_error("cassette_corrupt", f"{quoted(str(file))} has more than {MAX_CASSETTE_BYTES:,} bytes")
    entries: list[tuple[str, Answer]] = []
    lines = data.split(b"\n")
    number = 1
    try:
        if not data.endswith(b"\n"):
            number = len(lines)
            raise ValueError("the last line is cut")
        head = json.loads(lines[0])
        if head != {"format": FORMAT, "version": VERSION}:
            raise ValueError(f"it does not begin as a cassette of version {VERSION}")
        for line in lines[1:-1]:
            number += 1
            entries.append(_entry(json.loads(line)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        where = f"{quoted(str(file))}, line {number}"
        raise provider_error("cassette_corrupt", f"{where}: {type(error).__name__}: {quoted(str(error))}") from error
    return entries


def _entry(value: Any) -> tuple[str, Answer]:
    digest = value["request_sha256"]
    if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ValueError("request_sha256 is no SHA-256")
    if "error" in value:
        kind = FAILURES[value["error"]["code"]]
        return digest, ProviderError(kind.code, str(value["error"]["message"]), recoverable=kind.recoverable)
    return digest, ProviderResponse.from_dict(value["response"])


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True, default=str).encode() + b"\n"
