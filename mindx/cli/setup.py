"""`mindx setup`: an engine that answers and the image for sessions, as `make demo` sees to it in a checkout."""

from __future__ import annotations

import os
import subprocess
import sys

import click

from mindx.cli.verbosity import progress, verbosity_options
from mindx.core.count import counted
from mindx.core.data_files import data_path


@click.command(name="setup", epilog="\b\nExamples:\n  mindx setup\n  mindx setup --yes")
@click.option("--yes", is_flag=True, help="Do not ask before packages of the distribution are installed.")
@click.option("--image", default="python", show_default=True, metavar="NAME", help="The base image to build.")
@verbosity_options
def command(yes: bool, image: str) -> int:
    """Install and start the engine if none answers (Debian, Ubuntu), and build the base image.

    What is there already is left as it is. On other systems one message says what to install.
    """
    from mindx.errors import EngineError
    from mindx.sandbox.base_image import ensure_base
    from mindx.sandbox.engine import connect, connect_place
    from mindx.sandbox.host_system import read_host_system
    from mindx.sandbox.image import ensure_derived

    environ = dict(os.environ) | ({"YES": "1"} if yes else {})
    try:
        client, place = connect_place()
        client.close()
        environ["DOCKER_HOST"] = place.address
    except EngineError as error:
        system = read_host_system()
        if error.code in ("engine_missing", "engine_down") and not system.can_set_up:
            raise EngineError(error.code, f"no engine answers. {system.advice}") from error
        if error.code == "engine_context_unknown" or "docker context" in error.message:
            raise
    code = subprocess.run([sys.executable, str(data_path("scripts", "engine.py")), "start"], env=environ).returncode
    if code != 0:
        return code
    client = connect()
    try:
        with progress() as tell:
            base = ensure_base(client, image, tell)
            ensure_derived(client, base.image_id, tell)
    finally:
        client.close()
    held = counted(len(base.packages), "package")
    click.echo(f"{image} is there ({held}). Next: mindx exec -- python3 -c 'print(6 * 7)'")
    return 0
