"""The project file, mindx.yaml: what a project asks of a run. It may tighten; more only when the user trusts it."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mindx.core.folders import calling_home
from mindx.core.frozen import dataclass
from mindx.core.nearest import did_you_mean
from mindx.core.table import Kind, Problem, Table, TableError, key, keys_of, several, text
from mindx.errors import InputError
from mindx.policy.document import MAX_FILE_BYTES, read_document
from mindx.policy.layers import Layer, is_trusted, remember
from mindx.policy.load import LoadedPolicy, load_policy, parse_policy, policy_name, read_policy_file
from mindx.policy.model import GLOBS, Policy

if TYPE_CHECKING:
    from mindx.sandbox.project_image import ProjectImage

NAME = "mindx.yaml"
W = TypeVar("W", bound="Wishes")


@dataclass(frozen=True, kw_only=True)
class ImageWish(Table):
    """An image of the project's own: what is added to the image `base`.

    `packages` are the distribution's, `dockerfile` is the path of a Dockerfile beside the project's file, and `files`
    are the paths of all else that its COPY may name.
    """

    base: str = key(text(1, 41), "python")
    packages: tuple[str, ...] = key(several(text(1, 255), high=200), ())
    dockerfile: str | None = key(text(1, 1024, none=True), None)
    files: tuple[str, ...] = key(several(text(1, 1024), high=64), ())

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all files that belong to it."""
        return (*([self.dockerfile] if self.dockerfile else []), *self.files)


def _read_image(value: Any) -> str | ImageWish | None:
    if isinstance(value, Mapping):
        return ImageWish.read(value)
    return value if isinstance(value, ImageWish) else _IMAGE_NAME.read(value)


_IMAGE_NAME = text(1, 255, none=True)
_IMAGE = Kind(_read_image, {"anyOf": [_IMAGE_NAME.schema, ImageWish.schema()]})


@dataclass(frozen=True, kw_only=True)
class Wishes(Table):
    """The keys of a mindx.yaml. All are optional.

    `policy` is a preset's name or a path beside the file, `image` a base image's name or what is added to one,
    `exclude` are .gitignore patterns of what stays out of the workspace.
    """

    policy: str | None = key(text(1, 1024, none=True), None)
    image: str | ImageWish | None = key(_IMAGE, None)
    exclude: tuple[str, ...] = key(GLOBS, ())


def _read_pairs(value: Any) -> tuple[tuple[str, Any], ...]:
    """Return the keys and values of a mapping, which whoever knows them looks at."""
    if isinstance(value, tuple):
        return value
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError("this must be a list of keys and values")
    return tuple(value.items())


_PAIRS = Kind(_read_pairs, {"type": "object"})


@dataclass(frozen=True, kw_only=True)
class UserWishes(Wishes):
    """The keys of the user's own config.yaml: `campaign` and `coordinator` bound the society (mindx.society_settings).

    A project has no say in these.
    """

    campaign: tuple[tuple[str, Any], ...] = key(_PAIRS, ())
    coordinator: tuple[tuple[str, Any], ...] = key(_PAIRS, ())


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """One file that was read. `data` is all that it says, the policy that it names included: trust is bound to it.

    `policy_data` is what the policy that it names says, None when it names none, or a preset. It is read once: what is
    in force is what the digest is about. `files` are those of an image of the project's own, by path.
    """

    path: Path
    wishes: Wishes
    data: bytes
    trusted: bool
    policy_data: bytes | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def own_image(self) -> ProjectImage | None:
        """What the file adds to a base image, None when it adds nothing. Raises InputError."""
        wish = self.wishes.image
        if not isinstance(wish, ImageWish):
            return None
        from mindx.sandbox.project_image import ProjectImage  # not for a project without an image of its own

        try:
            return ProjectImage.read(
                {
                    "base": wish.base,
                    "packages": wish.packages,
                    "dockerfile": self.files[wish.dockerfile].decode() if wish.dockerfile else "",
                    "files": [(name, base64.b64encode(self.files[name]).decode()) for name in wish.files],
                }
            )
        except UnicodeDecodeError:
            raise _invalid(self.path, f"image.dockerfile: {wish.dockerfile} is not UTF-8") from None
        except TableError as error:
            raise _invalid(self.path, f"image: {error}") from None

    @property
    def image_name(self) -> str | None:
        """The name of the image that the file chooses, or of its own; None when it chooses none. Raises InputError."""
        wish = self.wishes.image
        own = self.own_image
        return own.name if own is not None else wish if isinstance(wish, str) else None


def find_project_file(folder: Path) -> Path | None:
    """Return the mindx.yaml of `folder` or of the nearest folder above it; None when there is none.

    The search ends at the root of a git repository, at the user's home, at a folder of another user, and at one like
    /tmp above `folder`, in which anybody may put a file.
    """
    folder = folder.resolve()
    owner = folder.stat().st_uid
    homes = {home.resolve() for home in (Path.home(), calling_home()) if home is not None}
    for at in (folder, *folder.parents):
        found = at.stat()
        if found.st_uid != owner or (found.st_mode & stat.S_IWOTH and at != folder):
            return None
        if os.path.lexists(at / NAME):
            return at / NAME
        if (at / ".git").exists() or at in homes:
            return None
    return None


def read_project_file(path: Path) -> ProjectFile:
    """Return what a file says.

    Raises InputError: project_file_invalid, policy_not_found, policy_unsafe_file, and policy_untrusted when it names a
    policy outside its own folder and is not trusted.
    """
    data = read_policy_file(str(path))
    wishes = parse_wishes(data, path)
    named = policy_path(wishes, path)
    if named is None or not _leads_out(named, path.parent):
        return _read_all(path, data, wishes)
    try:
        found = _read_all(path, data, wishes)
    except InputError:
        found = None  # what stands there on the host, or does not, is nothing that a project may find out
    if found is None or not found.trusted:
        raise InputError(
            "policy_untrusted",
            f"{path} names the policy {str(wishes.policy)[:60]!r} outside its own folder, which a project may do only "
            f"when you trust it; read both files, then: mindx trust {path.parent}",
        )
    return found


def _read_all(path: Path, data: bytes, wishes: Wishes) -> ProjectFile:
    named = policy_path(wishes, path)
    policy_data = None if named is None else read_policy_file(str(named))
    files = _image_files(path, wishes)
    whole = data if policy_data is None else data + b"\0" + policy_data
    for name, content in files.items():
        whole += b"\0%s\0%d\0%s" % (name.encode(), len(content), content)
    return ProjectFile(path, wishes, whole, is_trusted(path, whole), policy_data, files)


def _image_files(path: Path, wishes: Wishes) -> dict[str, bytes]:
    """Return what the image of a project's own is made of, by path; nothing from outside its folder."""
    if not isinstance(wishes.image, ImageWish):
        return {}
    found: dict[str, bytes] = {}
    for name in wishes.image.paths:
        if _leads_out(path.parent / name, path.parent):
            raise _invalid(path, f"image: {name[:60]} stands outside the project's folder; copy it in")
        try:
            found[name] = read_policy_file(str(path.parent / name))
        except InputError as error:
            raise _invalid(path, f"image: {error.message.removeprefix('the policy ')}") from None
        if len(found[name]) > MAX_FILE_BYTES:
            raise _invalid(path, f"image: {name[:60]} is larger than {MAX_FILE_BYTES // 1024} KiB")
    return found


def _leads_out(named: Path, folder: Path) -> bool:
    """Return True when a policy's path has `..` in it, is absolute, or passes a link that leaves the folder."""
    inside = named.is_relative_to(folder) and ".." not in named.relative_to(folder).parts
    return not inside or not named.parent.resolve().is_relative_to(folder.resolve())


def trust_project_file(path: Path) -> str:
    """Trust a file, and the policy that it names, as they are now; return the digest. Raises InputError."""
    data = read_policy_file(str(path))
    found = _read_all(path, data, parse_wishes(data, path))
    layer_of(replace(found, trusted=True))
    return remember(path, found.data)


def policy_path(wishes: Wishes, path: Path) -> Path | None:
    """Return the path of the policy file that the wishes name, None when they name none, or a preset."""
    named = wishes.policy
    if named is None or not ("/" in named or named.endswith((".yaml", ".yml"))):
        return None
    return path.parent / named


def parse_wishes(data: bytes, path: Path) -> Wishes:
    """Return the keys of a project's file; `path` is for the message. Raises InputError (project_file_invalid)."""
    return _parse(Wishes, data, path)


def parse_user_wishes(data: bytes, path: Path) -> UserWishes:
    """Return the keys of the user's own file; `path` is for the message. Raises InputError (project_file_invalid)."""
    return _parse(UserWishes, data, path)


def _parse(wishes: type[W], data: bytes, path: Path) -> W:
    document = read_document(data)
    faults = [f"line {fault.line}: {fault.message}" for fault in document.faults]
    value = {} if document.value is None else document.value
    if not faults and not isinstance(value, dict):
        faults = [f"it must be a mapping with the keys {', '.join(item.name for item in keys_of(wishes))}"]
    if not faults:
        try:
            return wishes.read(value)
        except TableError as error:
            faults = [_fault(problem) for problem in error.problems]
    raise _invalid(path, "; ".join(faults))


def _invalid(path: Path, what: str) -> InputError:
    return InputError("project_file_invalid", f"{path} cannot be used: {what}")


def _fault(problem: Problem) -> str:
    where = ".".join(str(part) for part in problem.path)
    if problem.kind == "unknown":
        hint = did_you_mean(where, problem.known) or f"write {', '.join(problem.known)}"
        return f"there is no key {where[:60]!r}; {hint}"
    return f"{where}: {problem.message}"


def layer_of(found: ProjectFile) -> Layer | None:
    """Return what a project's file asks as one layer of the policy, None when that is nothing.

    Raises InputError (policy_untrusted) when it asks for an image and is not trusted.
    """
    wishes = found.wishes
    if wishes.image is not None and not found.trusted:
        own = isinstance(wishes.image, ImageWish)
        does = "has an image of its own" if own else f"chooses the image {str(wishes.image)[:60]!r}"
        also = "".join(f", {name}" for name in wishes.image.paths) if isinstance(wishes.image, ImageWish) else ""
        raise InputError(
            "policy_untrusted",
            f"{found.path} {does}, which a project may do only when you trust it; "
            f"read {'the file' if not also else f'it{also}'}, then: mindx trust {found.path.parent}",
        )
    named = policy_path(wishes, found.path)
    base = _named_policy(found)
    if base is None and wishes.image is None and not wishes.exclude:
        return None
    policy = Policy() if base is None else base.policy
    rules = policy.workspace
    values: dict[str, object] = {"workspace": rules.changed(exclude=(*rules.exclude, *wishes.exclude))}
    if wishes.image is not None:
        values["image"] = _image(found)
    written = policy.written() | values
    if named is None and wishes.image is None and not found.trusted:
        written.pop("image", None)  # the preset's own choice of an image is no wish of the project
    try:
        policy = Policy.read(written)
    except TableError as error:
        message = error.problems[0].message
        raise InputError("project_file_invalid", f"{found.path} cannot be used: {message}") from None
    source = str(found.path)
    loaded = (
        LoadedPolicy(policy=policy, source=source, name="project", sha256=policy.sha256)
        if base is None
        else replace(base, policy=policy, sha256=policy.sha256, source=source)
    )
    return Layer("project", loaded, trusted=found.trusted)


def _image(found: ProjectFile) -> str | None:
    """Return the name of the image of a file that is trusted; an image of its own is kept, to be built when needed."""
    own = found.own_image
    if own is None:
        return found.image_name
    from mindx.sandbox.project_image import remember_project_image

    return remember_project_image(own, found.path.parent.resolve())


def _named_policy(found: ProjectFile) -> LoadedPolicy | None:
    """Return the policy that the file names: a preset, or the bytes that were read with it; None when it names none."""
    wishes = found.wishes
    named = policy_path(wishes, found.path)
    if named is not None and found.policy_data is not None:
        return parse_policy(found.policy_data, source=str(named), name=policy_name(str(named)))
    return load_policy(wishes.policy) if wishes.policy is not None else None
