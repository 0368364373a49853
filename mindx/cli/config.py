"""`mindx config`: the settings in force."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mindx.cli.escape import escape_line
from mindx.cli.options import image_option, json_option, policy_option
from mindx.cli.prose import note, print_json
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.core.folders import STATE_VARIABLE, state_dir

if TYPE_CHECKING:
    from mindx.policy.layers import Merged
    from mindx.settings import Settings


@click.group(
    name="config", epilog="\b\nExamples:\n  mindx config show --origin\n  MINDX_POLICY=read-only mindx config show"
)
def command() -> None:
    """Show the settings in force and who set them.

    A flag goes before a variable (MINDX_POLICY, MINDX_IMAGE), that before the project's mindx.yaml (found from the
    workspace upwards), that before config.yaml in your own folder (MINDX_CONFIG_DIR).
    """


@command.command(name="show", epilog="\b\nExample:\n  mindx config show --workspace . --origin")
@policy_option
@image_option
@click.option(
    "--workspace",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    show_default=True,
    help="Where to look for a project.",
)
@click.option("--origin", is_flag=True, help="Say of each setting who set it.")
@json_option
def show(policy: str | None, image: str | None, workspace: Path, origin: bool, as_json: bool) -> None:
    """Print each setting, and with --origin who set it. The whole policy: `mindx policy show --origin`."""
    from mindx.settings import policy_in_force, read_settings, unknown_variables

    settings = read_settings(policy, image, workspace)
    merged = policy_in_force(settings, workspace)
    project = settings.project
    rows: dict[str, tuple[Any, str]] = {
        "policy": (merged.loaded.name, _base_origin(merged, settings)),
        "tightened_by": ([layer.loaded.source for layer in merged.layers[1:]], "layers only tighten the policy"),
        "policy_sha256": (merged.loaded.sha256, "all of them together"),
        "image": (merged.loaded.policy.image, merged.origin.get("image", "built-in")),
        "exclude": (list(merged.loaded.policy.workspace.exclude), merged.origin.get("workspace.exclude", "built-in")),
        "project_file": (str(project.path) if project else None, _trust(project)),
        "user_file": (str(settings.user_path), "there" if settings.user_path.exists() else "not there"),
        "state_dir": (str(state_dir()), STATE_VARIABLE if os.environ.get(STATE_VARIABLE) else "built-in"),
        "engine": _engine(),
    }
    rows |= _of_society(settings)
    for name, hint in unknown_variables(os.environ).items():
        note(f"{name} is no variable of mindx" + (f"; {hint}" if hint else ""))
    if as_json:
        values = {name: {"value": value, "origin": source} for name, (value, source) in rows.items()}
        print_json(render_json({"schema_version": SCHEMA_VERSION, "settings": values}))
        return
    width = max(14, *map(len, rows))
    for name, (value, source) in rows.items():
        shown = ", ".join(value) if isinstance(value, list) else "-" if value is None else str(value)
        click.echo(escape_line(f"{name:<{width}} {shown or '-'}" + (f"  ({source})" if origin else "")))


def _of_society(settings: Settings) -> dict[str, tuple[Any, str]]:
    """Return a row for each value of campaigns and the coordinator that the user's file sets; none has another origin.

    Raises InputError when they cannot be used.
    """
    set_here = {"campaign": settings.user.campaign, "coordinator": settings.user.coordinator}
    if not any(set_here.values()):
        return {}
    from mindx.society_settings import campaign_budget, coordinator_config

    values = {
        "campaign": campaign_budget(settings=settings).model_dump(mode="json"),
        "coordinator": coordinator_config(settings).model_dump(mode="json"),
    }
    return {
        f"{part}.{name}": (json.dumps(values[part][name]), str(settings.user_path))
        for part, names in set_here.items()
        for name, _ in names
    }


def _base_origin(merged: Merged, settings: Settings) -> str:
    """Return who chose the policy that is the base; a project that is not trusted never does."""
    from mindx.settings import POLICY_FLAG, POLICY_VARIABLE

    base, chosen = merged.layers[0], settings.policy
    if base.name == "project" or chosen.origin in (POLICY_FLAG, POLICY_VARIABLE):
        return base.loaded.source if base.name == "project" else chosen.origin
    if settings.user.policy is not None and base.name == "command line":
        return str(settings.user_path)
    return base.loaded.source if base.name == "user" else "built-in"


def _trust(project: Any) -> str:
    if project is None:
        return "none from the workspace upwards"
    return "trusted" if project.trusted else "not trusted: it can only tighten"


def _engine() -> tuple[str | None, str]:
    from mindx.errors import EngineError
    from mindx.sandbox.engine_place import find_places

    try:
        place = find_places()[0]
    except EngineError as error:
        return None, error.message
    return place.address, place.origin
