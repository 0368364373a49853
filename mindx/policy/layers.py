"""Layers: the user's policy, a project's and the command line's become one. Key by key, the strictest wins.

The base is the policy of the command line (`--policy`); without one, the first of the trusted project's and the user's
that allows any command; without that, the preset `default`. All other layers only tighten it. A project's file, and
anything else that comes with the folder, is not trusted until `mindx trust DIR`: then it may also choose the image.
What nobody set is built in.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal

from mindx.core.atomic_file import write_whole
from mindx.core.folders import config_dir, state_dir
from mindx.core.frozen import dataclass
from mindx.core.table import TableError, keys_of, written_name
from mindx.errors import InputError
from mindx.policy.load import LoadedPolicy, load_policy, parse_policy, read_policy_file
from mindx.policy.model import Approvals, CommandLayer, Limits, MergedPolicy, Policy, WorkspaceRules

PROJECT_FILE = Path(".mindx") / "policy.yaml"
LayerName = Literal["command line", "project", "user", "preset"]
_AUTONOMOUS = ("never", "flag", "always")


@dataclass(frozen=True, slots=True)
class Layer:
    """One policy and where it stands. `trusted` is False for a project's file that nobody vouched for."""

    name: LayerName
    loaded: LoadedPolicy
    trusted: bool = True

    @property
    def policy(self) -> Policy:
        """Return the layer's own policy."""
        return self.loaded.policy

    @property
    def allows(self) -> bool:
        """Return True when a rule of this layer allows something: then what it does not allow is denied."""
        return any(rule.decision == "allow" for rule in self.policy.commands)


@dataclass(frozen=True, slots=True)
class Merged:
    """The policy in force: `origin` names the layers that decided each key, such as `limits.memory`."""

    loaded: LoadedPolicy
    layers: tuple[Layer, ...]
    origin: dict[str, str] = field(default_factory=dict)


def load_layers(ref: str | Path | None = None, project: Path | None = None, more: Sequence[Layer] = ()) -> Merged:
    """Return the policy in force for a run: `ref` as in load_policy, `project` the folder that is copied in, or None.

    `more` are layers that come from elsewhere, such as a mindx.yaml; they stand between the project's and the user's.
    Everything is read here, once. Raises InputError for a layer that is not usable, by its own name, and with code
    policy_untrusted when a project that is not trusted sets what only a trusted one may.
    """
    found: list[Layer] = []
    if ref is not None:
        found.append(Layer("command line", load_policy(ref)))
    layer = _project_layer(project) if project is not None else None
    if layer is not None:
        found.append(layer)
    found.extend(more)
    user = user_policy_path()
    if os.path.lexists(user):
        found.append(Layer("user", load_policy(user)))
    base = next((one for one in found if one.name == "command line" or (one.trusted and one.allows)), None)
    if base is None:
        base = Layer("preset", load_policy(None))
    return merge(base, [one for one in found if one is not base])


def merge(base: Layer, others: Sequence[Layer]) -> Merged:
    """Return `base` tightened by `others`. Pure. Raises InputError if the limits together make no sense."""
    for other in others:
        if not other.trusted:
            _refuse_untrusted(other)
    if not others:
        return Merged(base.loaded, (base,), _origin_of(base))
    origin: dict[str, str] = {}
    policy = base.policy
    values: dict[str, Any] = {name: getattr(policy, name) for name in ("version", "name", "description", "commands")}
    values["limits"] = _tighten("limits", base, others, min, origin, Limits)
    values["approvals"] = _tighten("approvals", base, others, _stricter_approval, origin, Approvals)
    values["workspace"] = _workspace(base, others, origin)
    values["autonomous"] = min(
        [policy.autonomous, *(o.policy.autonomous for o in others if "autonomous" in o.policy.given)],
        key=_AUTONOMOUS.index,
    )
    origin["autonomous"] = _names("autonomous", base, others)
    for key in ("image", "runtime"):
        chooser = next((o for o in (base, *others) if o.trusted and key in o.policy.given), None)
        values[key], origin[key] = getattr((chooser or base).policy, key), chooser.name if chooser else "built-in"
    # A gap is accepted only by the base, and only if every other layer that speaks of gaps accepts it too.
    speaking = [set(o.policy.accept_gaps) for o in others if o.trusted and "accept_gaps" in o.policy.given]
    values["accept_gaps"] = tuple(gap for gap in policy.accept_gaps if all(gap in gaps for gaps in speaking))
    origin["accept_gaps"] = _names("accept_gaps", base, others)
    tightening = tuple(CommandLayer(name=o.name, rules=o.policy.commands) for o in others if o.policy.commands)
    origin["commands"] = ", ".join([base.name, *(layer.name for layer in tightening)])
    try:
        merged = MergedPolicy.read({**values, "tightened_by": tightening})
    except TableError as error:
        names = ", ".join(layer.loaded.source for layer in (base, *others))
        raise InputError(
            "policy_conflict", f"the policies {names} do not fit together: {error.problems[0].message}"
        ) from None
    loaded = replace(base.loaded, policy=merged, sha256=merged.sha256)
    return Merged(loaded, (base, *others), origin)


def _tighten(
    key: str,
    base: Layer,
    others: Sequence[Layer],
    stricter: Callable[[Any, Any], Any],
    origin: dict[str, str],
    model: type[Limits] | type[Approvals],
) -> dict[str, Any]:
    """Return the values of one table: the base's, made stricter by whatever another layer sets."""
    table, values = getattr(base.policy, key), {}
    for item in keys_of(model):
        name, alias = item.name, written_name(item)
        value = getattr(table, name)
        source = base.name if name in table.given else "built-in"
        for other in others:
            theirs = getattr(other.policy, key)
            if name in theirs.given and stricter(value, getattr(theirs, name)) != value:
                value, source = getattr(theirs, name), other.name
        values[alias], origin[f"{key}.{alias}"] = value, source
    return values


def _stricter_approval(left: Any, right: Any) -> Any:
    order = (
        None,
        "session",
        "dangerous",
        "never",
        "write",
    )  # ask_from: None, dangerous, write; remember: session, never
    return max(left, right, key=order.index)


def _workspace(base: Layer, others: Sequence[Layer], origin: dict[str, str]) -> WorkspaceRules:
    """Return the union of what is kept out or protected; only the base may bring something back in."""
    table = base.policy.workspace
    values: dict[str, Any] = {"include": table.include}
    origin["workspace.include"] = base.name if table.include else "built-in"
    for name in ("exclude", "secrets", "protected"):
        joined = list(getattr(table, name))
        for other in others:
            joined += [glob for glob in getattr(other.policy.workspace, name) if glob not in joined]
        values[name] = tuple(joined)
        origin[f"workspace.{name}"] = ", ".join(
            [layer.name for layer in (base, *others) if getattr(layer.policy.workspace, name)] or ["built-in"]
        )
    if table.include:  # it brings back what the base excludes, never what another layer does: secrets always win
        theirs = [glob for other in others for glob in other.policy.workspace.exclude]
        values["secrets"] = (*values["secrets"], *theirs)
    return WorkspaceRules(**values)


def _names(key: str, base: Layer, others: Sequence[Layer]) -> str:
    names = [layer.name for layer in (base, *others) if key in layer.policy.given]
    return ", ".join(names) or "built-in"


def _origin_of(base: Layer) -> dict[str, str]:
    origin: dict[str, str] = {}
    for key, model in (("limits", Limits), ("approvals", Approvals), ("workspace", WorkspaceRules)):
        table = getattr(base.policy, key)
        for item in keys_of(model):
            origin[f"{key}.{written_name(item)}"] = base.name if item.name in table.given else "built-in"
    for key in ("image", "runtime", "accept_gaps", "commands", "autonomous"):
        origin[key] = base.name if key in base.policy.given else "built-in"
    return origin


def _refuse_untrusted(layer: Layer) -> None:
    policy = layer.policy
    asked: list[str] = [key for key in ("image", "runtime", "accept_gaps") if key in policy.given]
    asked += ["workspace.include"] if policy.workspace.include else []
    if asked:
        beside = Path(layer.loaded.source).parent
        folder = beside.parent if beside.name == PROJECT_FILE.parent.name else beside
        raise InputError(
            "policy_untrusted",
            f"{layer.loaded.source} sets {', '.join(asked)}, which a project may do only when you trust it; read the "
            f"file, then: mindx trust {folder}",
        )


def user_policy_path() -> Path:
    """Return where the user's own policy stands, whether or not there is one."""
    return config_dir() / "policy.yaml"


def _project_layer(project: Path) -> Layer | None:
    path = project / PROJECT_FILE
    if not os.path.lexists(path):
        return None
    if os.path.islink(path.parent):
        raise InputError("policy_unsafe_file", f"the policy folder {path.parent} is a link; make it a folder")
    data = read_policy_file(str(path))
    loaded = parse_policy(data, source=str(path), name="project")
    return Layer("project", loaded, trusted=is_trusted(project, data))


def is_trusted(project: Path, data: bytes) -> bool:
    """Return True when the user vouched for this very content of the project's policy file."""
    return _trusted().get(_key(project)) == hashlib.sha256(data).hexdigest()


def remember(path: Path, data: bytes) -> str:
    """Remember this very content, standing at `path`, as trusted, and return its digest. Raises InputError."""
    digest = hashlib.sha256(data).hexdigest()
    _write_trusted({**_trusted(), _key(path): digest})
    return digest


def trust(project: Path) -> str:
    """Remember the project's policy file as trusted, and return its digest. Raises InputError if it is not usable."""
    path = project / PROJECT_FILE
    data = read_policy_file(str(path))
    parse_policy(data, source=str(path), name="project")
    return remember(project, data)


def distrust(project: Path) -> bool:
    """Forget a project; return whether it had been trusted."""
    known = _trusted()
    if known.pop(_key(project), None) is None:
        return False
    _write_trusted(known)
    return True


def _key(project: Path) -> str:
    return str(project.resolve())


def _trust_file() -> Path:
    return state_dir() / "trusted_projects.json"


def _trusted() -> dict[str, str]:
    try:
        known = json.loads(_trust_file().read_text())
    except (OSError, ValueError):
        return {}
    return {k: v for k, v in known.items() if isinstance(v, str)} if isinstance(known, dict) else {}


def _write_trusted(known: dict[str, str]) -> None:
    path = _trust_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{json.dumps(known, indent=2, sort_keys=True)}\n".encode())
    except OSError as error:
        raise InputError("trust_not_saved", f"{path} cannot be written: {error.strerror}") from None
