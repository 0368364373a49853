"""Loading: from a preset's name or a file to a Policy, or to every fault with its place and what to write instead."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from mindx.core.data_files import data_path
from mindx.core.fault import Fault
from mindx.core.frozen import dataclass
from mindx.core.nearest import did_you_mean
from mindx.core.table import Problem, TableError
from mindx.errors import InputError
from mindx.policy.document import MAX_FILE_BYTES, Document, read_document
from mindx.policy.model import LATER_KEYS, Policy

PRESETS = ("default", "read-only", "python-dev", "ci-eval")
DEFAULT_PRESET = "default"


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """A policy, its name, the digest of what is in force, and where it came from: `preset:NAME` or a file's path."""

    policy: Policy
    name: str
    sha256: str
    source: str


def load_policy(ref: str | Path | None = None) -> LoadedPolicy:
    """Return the policy that `ref` names: a preset's name, or a path; None is the preset `default`.

    A string with a slash, or that ends in .yaml or .yml, is a path. The file is read once; later changes do nothing.
    Raises InputError with code policy_not_found, policy_unsafe_file or policy_invalid; the last has `faults` in
    its details and every one of them in its message.
    """
    text = DEFAULT_PRESET if ref is None else str(ref)
    if isinstance(ref, Path) or "/" in text or text.endswith((".yaml", ".yml")):
        return parse_policy(read_policy_file(text), source=text, name=policy_name(text))
    if text not in PRESETS:
        hint = did_you_mean(text, PRESETS) or f"write one of {', '.join(PRESETS)}, or a path such as ./{text}"
        raise InputError("policy_not_found", f"there is no policy preset {text[:80]!r}; {hint}")
    path = data_path("policies", f"{text}.yaml")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError("policy_not_found", f"the preset {text} cannot be read: {error.strerror}") from None
    return parse_policy(data, source=f"preset:{text}", name=text)


def parse_policy(data: bytes, *, source: str, name: str = "policy") -> LoadedPolicy:
    """Return the policy in a file's bytes; `source` is shown in messages, `name` is used if the file has none.

    Raises InputError, code policy_invalid.
    """
    document = read_document(data)
    if document.faults:
        raise _invalid(document.faults, source)
    if not isinstance(document.value, dict):
        fault = Fault("$", 1, "a policy is a list of keys and values", "begin with: version: 1", column=1)
        raise _invalid([fault], source)
    values = dict(document.value)
    values.setdefault("name", name)
    faults = [] if "version" in values else [document.fault((), "version is missing", "add: version: 1")]
    try:
        policy = Policy.read(values)
    except TableError as error:
        faults += [_fault(problem, document) for problem in error.problems]
    if faults:
        raise _invalid(faults, source)
    return LoadedPolicy(policy, policy.name, policy.sha256, source)


def _fault(problem: Problem, document: Document) -> Fault:
    if problem.kind != "unknown":
        return document.fault(problem.path, problem.message)
    name = str(problem.path[-1])
    if len(problem.path) == 1 and name in LATER_KEYS:
        message = f"the key {name} is not supported: {LATER_KEYS[name]}"
        return document.fault(problem.path, message, "remove it", at_key=True)
    hint = did_you_mean(name, problem.known, 0.5) or f"the keys here are {', '.join(problem.known)}"
    return document.fault(problem.path, problem.message, hint, at_key=True)


def _invalid(faults: list[Fault], source: str) -> InputError:
    faults = sorted(faults, key=lambda fault: (fault.line or 0, fault.column or 0))
    lines = [f"the policy {source} is not usable:"]
    for fault in faults[:50]:
        place = f"{source}:{fault.line}:{fault.column}" if fault.line else source
        lines.append(f"  {place}: {fault.path}: {fault.message}{'; ' + fault.suggestion if fault.suggestion else ''}")
    if len(faults) > 50:
        lines.append(f"  and {len(faults) - 50} more")
    details = {"source": source, "faults": [fault.to_dict() for fault in faults]}
    return InputError("policy_invalid", "\n".join(lines), details=details)


def policy_name(text: str) -> str:
    """Return the name of a policy that has none of its own, from its file's path."""
    stem = re.sub(r"[^A-Za-z0-9._-]", "-", Path(text).stem)[:64].lstrip("._-")
    return stem or "policy"


def read_policy_file(path: str) -> bytes:
    """Return a policy file's bytes, from a regular file that nobody else can write."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    try:
        _check_file(path, os.fstat(handle))
        with os.fdopen(os.dup(handle), "rb") as stream:
            return stream.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(handle)


def _unreadable(path: str, error: Exception) -> InputError:
    if os.path.islink(path):
        return _unsafe(path, "is a link", "give the path of the file itself")
    reason = getattr(error, "strerror", None) or str(error)
    return InputError("policy_not_found", f"the policy {path} cannot be read: {reason}")


def _check_file(path: str, info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise _unsafe(path, "is not a regular file", "give the path of a file")
    # A private group of one user (gid = uid, as most distributions make them) is that user.
    if info.st_mode & 0o002 or (info.st_mode & 0o020 and info.st_gid != info.st_uid):
        raise _unsafe(path, "can be written by others", f"take that away: chmod go-w {path}")
    if info.st_uid not in _trusted_users():
        raise _unsafe(path, "belongs to another user", "read it, and make it your own: chown, or a copy")


def _trusted_users() -> set[int]:
    """Return whose files count: root's, our own, and under sudo the caller's."""
    users = {0, os.geteuid()}
    caller = os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and caller.isdecimal():
        users.add(int(caller))
    return users


def _unsafe(path: str, what: str, todo: str) -> InputError:
    return InputError("policy_unsafe_file", f"the policy {path} {what}; {todo}", details={"source": path})
