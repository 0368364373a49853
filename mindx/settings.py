"""Settings: a flag goes before a MINDX_ variable, that before the project's mindx.yaml, that before the user's file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mindx.core.data_files import data_path
from mindx.core.folders import CONFIG_VARIABLE, STATE_VARIABLE
from mindx.core.frozen import dataclass
from mindx.core.nearest import did_you_mean
from mindx.errors import InputError
from mindx.policy.layers import Merged, load_layers, user_policy_path
from mindx.policy.load import LoadedPolicy, read_policy_file
from mindx.project_file import (
    ProjectFile,
    UserWishes,
    Wishes,
    find_project_file,
    layer_of,
    parse_user_wishes,
    policy_path,
)
from mindx.project_file import read_project_file as read_project

POLICY_FLAG, IMAGE_FLAG = "--policy", "--image"
POLICY_VARIABLE, IMAGE_VARIABLE = "MINDX_POLICY", "MINDX_IMAGE"
# All that mindx reads: for `mindx config show`, which tells a name that is nearly one of these.
VARIABLES = (
    POLICY_VARIABLE,
    IMAGE_VARIABLE,
    STATE_VARIABLE,
    CONFIG_VARIABLE,
    "MINDX_API_KEY",
    "MINDX_BASE_URL",
    "MINDX_MODELS",
    "MINDX_PLATFORM",
)
USER_FILE = "config.yaml"


@dataclass(frozen=True, slots=True)
class Setting:
    """One value and who set it; None when nobody did."""

    value: str | None
    origin: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for one command, before the policy's layers are put together.

    `exclude` has the patterns of the project's file and of the user's, which add up.
    """

    policy: Setting
    image: Setting
    exclude: tuple[str, ...]
    project: ProjectFile | None
    user_path: Path
    user: UserWishes


def read_settings(
    policy: str | None = None,
    image: str | None = None,
    workspace: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings of a command with these flags (None: not given). Raises InputError.

    The project's file is looked for from `workspace` upwards; without a workspace there is no project.
    """
    environ = os.environ if environ is None else environ
    user_path = user_policy_path().with_name(USER_FILE)
    user = UserWishes()
    if os.path.lexists(user_path):
        user = parse_user_wishes(read_policy_file(str(user_path)), user_path)
    path = find_project_file(workspace) if workspace is not None and workspace.is_dir() else None
    project = read_project(path) if path is not None else None
    user_policy = policy_path(user, user_path)
    asked = Wishes() if project is None else project.wishes
    return Settings(
        policy=_first(
            (policy, POLICY_FLAG),
            (environ.get(POLICY_VARIABLE) or None, POLICY_VARIABLE),
            (asked.policy, str(path)),
            (str(user_policy) if user_policy is not None else user.policy, str(user_path)),
        ),
        image=_first(
            (image, IMAGE_FLAG),
            (environ.get(IMAGE_VARIABLE) or None, IMAGE_VARIABLE),
            (project.image_name if project is not None else None, str(path)),
            (_users_image(user, user_path), str(user_path)),
        ),
        exclude=(*asked.exclude, *(glob for glob in user.exclude if glob not in asked.exclude)),
        project=project,
        user_path=user_path,
        user=user,
    )


def _users_image(user: Wishes, path: Path) -> str | None:
    if user.image is None or isinstance(user.image, str):
        return user.image
    raise InputError(
        "project_file_invalid", f"{path} cannot be used: image: write a name; packages and Dockerfiles are a project's"
    )


def policy_in_force(settings: Settings, workspace: Path | None = None) -> Merged:
    """Return the one policy of all layers, with the image that the settings choose. Raises InputError.

    A policy by flag or variable is the base. The project's tightens; it is the base only when it is trusted and nobody
    named another. The user's config.yaml names the base when nobody else does.
    """
    project = settings.project
    layer = layer_of(project) if project is not None else None
    folder = workspace if workspace is not None and workspace.is_dir() else None
    try:
        merged = load_layers(_base(settings), folder, [layer] if layer is not None else [])
    except InputError as error:
        if settings.policy.origin == POLICY_VARIABLE and error.code == "policy_not_found":
            raise InputError(error.code, f"{error.message} (from {POLICY_VARIABLE})") from error
        raise
    if settings.user.exclude:
        merged = _with_exclude(merged, settings)
    image = settings.image
    free = merged.origin.get("image", "built-in") in ("built-in", "preset")
    if image.value is None or not (free or image.origin in (IMAGE_FLAG, IMAGE_VARIABLE)):
        return merged
    from mindx.runtime.session import with_image  # not for `mindx check`, which is to be quick

    loaded = with_image(merged.loaded, image.value)
    return Merged(loaded, merged.layers, {**merged.origin, "image": image.origin})


def effective_policy(policy: str | None, image: str | None = None, workspace: Path | None = None) -> LoadedPolicy:
    """Return the policy in force for a command with these flags, whose image is one that mindx knows.

    Raises InputError (ImageInputError for the image).
    """
    settings = read_settings(policy, image, workspace)
    loaded = policy_in_force(settings, workspace).loaded
    name = loaded.policy.image
    if not (name.isalnum() and data_path("sandbox_images", f"{name}/image.yaml").is_file()):
        from mindx.sandbox.image_names import check_known  # not for the images that come with mindx: it takes 3 ms

        check_known(name)
    return loaded


def _base(settings: Settings) -> str | None:
    """Return the policy that is the base, None to let the layers choose it."""
    if settings.policy.origin in (POLICY_FLAG, POLICY_VARIABLE):
        return settings.policy.value
    project = settings.project
    if project is not None and project.trusted and project.wishes.policy is not None:
        return None
    named = policy_path(settings.user, settings.user_path)
    return str(named) if named is not None else settings.user.policy


def _with_exclude(merged: Merged, settings: Settings) -> Merged:
    """Add the patterns of the user's own file, which holds for all projects."""
    rules = merged.loaded.policy.workspace
    more = tuple(glob for glob in settings.user.exclude if glob not in rules.exclude)
    changed = rules.changed(exclude=(*rules.exclude, *more))
    policy = merged.loaded.policy.changed(workspace=changed)
    loaded = replace(merged.loaded, policy=policy, sha256=policy.sha256)
    origin = {**merged.origin, "workspace.exclude": f"{merged.origin.get('workspace.exclude')}, {settings.user_path}"}
    return Merged(loaded, merged.layers, origin)


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the MINDX_ variables that mindx does not read, each with a suggestion, or ""."""
    unknown = [name for name in sorted(environ) if name.startswith("MINDX_") and name not in VARIABLES]
    return {name: did_you_mean(name, VARIABLES) for name in unknown}


def _first(*choices: tuple[str | None, str]) -> Setting:
    for value, origin in choices:
        if value is not None:
            return Setting(value, origin)
    return Setting(None, "built-in")
