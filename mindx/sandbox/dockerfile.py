"""What a project's Dockerfile may begin with: the base that mindx hands in, or an image whose digest it names.

Nothing is looked for in a registry by a tag, which may be anything tomorrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

BASE_ARGUMENT = "BASE"
_DIGEST = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
_FROM = re.compile(r"FROM\s+(?:--platform=\S+\s+)?(?P<image>\S+)(?:\s+AS\s+(?P<stage>\S+))?\s*", re.IGNORECASE)
_COPY_FROM = re.compile(r"(?:COPY|ADD)\s.*?--from=(?P<image>\S+)", re.IGNORECASE)


def find_fault(text: str) -> str:
    """Return what mindx does not take in a Dockerfile, with its line; "" when there is nothing."""
    stages: list[str] = []
    count = 0
    for number, line in _instructions(text):
        if re.match(r"#\s*(syntax|escape)\s*=", line, re.IGNORECASE):
            return f"line {number}: write it without the directive {line.lstrip('# ')[:60]!r}"
        begun = _FROM.fullmatch(line)
        if line.upper().startswith("FROM") and begun is None:
            return f"line {number}: {line[:60]!r} is not understood"
        if begun is not None:
            if not _is_known(begun["image"], stages):
                return (
                    f"line {number}: FROM {begun['image'][:60]} may be anything tomorrow; write ARG {BASE_ARGUMENT} "
                    f"and FROM ${{{BASE_ARGUMENT}}} for the base, or NAME@sha256:DIGEST"
                )
            count += 1
            stages += [str(count - 1), *([begun["stage"].lower()] if begun["stage"] else [])]
            continue
        copied = _COPY_FROM.match(line)
        if copied is not None and not _is_known(copied["image"], stages):
            return f"line {number}: --from={copied['image'][:60]} is no stage above; write NAME@sha256:DIGEST"
    return "" if count else "it has no FROM"


def _is_known(image: str, stages: list[str]) -> bool:
    base = image in (f"${BASE_ARGUMENT}", f"${{{BASE_ARGUMENT}}}", "scratch")
    return base or image.lower() in stages or _DIGEST.fullmatch(image) is not None


def _instructions(text: str) -> Iterator[tuple[int, str]]:
    """Yield each instruction as one line, with the number where it begins; and comments, which may be directives."""
    begun, parts = 0, list[str]()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line.startswith("#"):
            if not parts:
                yield number, line
            continue
        begun = begun if parts else number
        parts.append(line.removesuffix("\\").rstrip())
        if line.endswith("\\") or not "".join(parts):
            if not "".join(parts):
                parts = []
            continue
        yield begun, " ".join(parts)
        parts = []
    if parts:
        yield begun, " ".join(parts)
