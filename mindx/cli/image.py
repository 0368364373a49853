"""`mindx image`: the images that sessions start from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mindx.cli.columns import print_columns
from mindx.cli.escape import escape_line
from mindx.cli.options import json_option
from mindx.cli.prose import print_json
from mindx.cli.verbosity import progress, remark, verbosity_options
from mindx.core.count import counted
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.errors import InputError
from mindx.settings import effective_policy

if TYPE_CHECKING:
    import docker

    from mindx.sandbox.image_records import BaseImage


@contextmanager
def _engine() -> Iterator[docker.DockerClient]:
    from mindx.sandbox.engine import connect

    client = connect()
    try:
        yield client
    finally:
        client.close()


@click.group(
    name="image",
    epilog="\b\nExamples:\n  mindx image list\n  mindx image build python\n  mindx image export python python.tar",
)
def command() -> None:
    """Build, list, move and remove the images that sessions start from."""


@command.command(name="list", epilog="\b\nExample:\n  mindx image list --json | jq '.images[].name'")
@json_option
def list_images(as_json: bool) -> None:
    """List the images that mindx can build, and those that this engine has."""
    from mindx.sandbox.image_catalog import list_images as rows_of

    with _engine() as client:
        rows = rows_of(client)
    if as_json:
        images = [dataclasses.asdict(row) for row in rows]
        print_json(render_json({"schema_version": SCHEMA_VERSION, "images": images}))
        return
    lines = [
        {
            "name": escape_line(row.name),
            "state": row.state,
            "id": row.image_id[7:19],
            "size": f"{row.size_bytes / 1e6:.0f} MB" if row.image_id else "",
            "description": escape_line(row.description),
        }
        for row in rows
    ]
    print_columns(lines, gives_way=("size", "state", "id"), prose="description", right=("size",))


@command.command(name="show", epilog="\b\nExamples:\n  mindx image show python\n  mindx image show python --sbom")
@click.argument("name")
@click.option("--sbom", is_flag=True, help="Print the packages as CycloneDX JSON.")
@json_option
def show_image(name: str, sbom: bool, as_json: bool) -> None:
    """Show one image: where it came from, its labels and its packages."""
    from mindx.sandbox.bill_of_materials import bill_of_materials
    from mindx.sandbox.image_catalog import show_image as find

    with _engine() as client:
        row, record = find(client, name)
    if sbom:
        print_json(render_json(bill_of_materials(record)))
        return
    if as_json:
        print_json(render_json(_document(record, row.labels or {})))
        return
    click.echo(escape_line(f"{record.name}: {row.description}"))
    for key, value in (
        ("id", record.image_id),
        ("from", record.distribution),
        ("built", record.built_at),
        ("size", f"{row.size_bytes / 1e6:.0f} MB"),
        ("certificates of this host in it", str(record.host_certificates)),
        ("images for sessions made of it", str(row.sessions)),
        ("packages", str(len(record.packages))),
    ):
        click.echo(escape_line(f"  {key}: {value}"))
    for package in record.packages:
        click.echo(escape_line(f"    {package.name} {package.version}"))


@command.command(
    name="build",
    epilog="\b\nExamples:\n  mindx image build python\n  mindx image build python --anew\n"
    "  mindx image build --project .",
)
@click.argument("name", required=False)
@click.option(
    "--project",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Build the image that the mindx.yaml of DIR, or above it, asks for; it must be trusted.",
)
@click.option("--anew", is_flag=True, help="Build it again, with the packages of today.")
@verbosity_options
@json_option
def build_image(name: str | None, project: Path | None, anew: bool, as_json: bool) -> None:
    """Build an image from the packages of this machine's distribution (Debian or Ubuntu), if it is not there yet.

    NAME is python when nothing is named. A project's own image adds packages and a Dockerfile: docs/images.md.
    """
    from mindx.sandbox.base_image import ensure_base, rebuild_base
    from mindx.sandbox.image import ensure_derived

    if name is not None and project is not None:
        raise click.UsageError("name an image or give --project, not both")
    if project is not None:
        name = effective_policy(None, workspace=project).policy.image
    name = name or "python"
    with _engine() as client, progress() as tell:
        record = (rebuild_base if anew else ensure_base)(client, name, tell)
        ensure_derived(client, record.image_id, tell)
    if as_json:
        print_json(render_json(_document(record)))
    else:
        click.echo(escape_line(f"{name} is there: {record.image_id}, {counted(len(record.packages), 'package')}"))


@command.command(
    name="pull",
    epilog="\b\nExamples:\n  mindx image pull registry.example:5000/team/tools:3 --name tools\n"
    "  mindx exec --image tools -- tool --version",
)
@click.argument("reference")
@click.option("--name", required=True, metavar="NAME", help="What policies call it: image: NAME.")
@verbosity_options
@json_option
def pull_image(reference: str, name: str, as_json: bool) -> None:
    """Pull an image from a registry and keep it by its digest; runs then use that digest and no other.

    The image needs Python 3.8 or newer. An image is as trusted as its maker: its programs are what your plans run.
    """
    from mindx.sandbox.base_image import pull_base
    from mindx.sandbox.image import ensure_derived

    with _engine() as client, progress() as tell:
        record = pull_base(client, reference, name, tell)
        ensure_derived(client, record.image_id, tell)
    if as_json:
        print_json(render_json(_document(record)))
    else:
        click.echo(escape_line(f"{name} is there: {record.reference}"))


@command.command(
    name="remove",
    epilog="\b\nExamples:\n  mindx image remove --old\n  mindx image remove python  # the next run builds it",
)
@click.argument("name", required=False)
@click.option("--old", is_flag=True, help="Remove what only an older mindx used.")
@json_option
def remove_image(name: str | None, old: bool, as_json: bool) -> None:
    """Remove an image and all that was made of it. What a container uses is kept."""
    from mindx.sandbox.image_catalog import remove_images

    if (name is None) is not old:
        raise click.UsageError("name an image, or give --old")
    with _engine() as client:
        removed = remove_images(client, name)
    if as_json:
        print_json(render_json({"schema_version": SCHEMA_VERSION, "removed": removed}))
        return
    for image_id in removed:
        click.echo(escape_line(f"removed {image_id}"))
    if not removed:
        click.echo("nothing to remove")


@command.command(name="export", epilog="\b\nExample:\n  mindx image export python python.tar")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@verbosity_options
@json_option
def export_image(name: str, file: Path, as_json: bool) -> None:
    """Write an image to FILE, with its digest and its list of packages, for another machine."""
    from mindx.sandbox.image_archive import export_image as write

    with _engine() as client, progress() as tell:
        manifest = write(client, name, file, tell)
    if manifest.image.host_certificates:
        held = counted(manifest.image.host_certificates, "certificate")
        remark(f"it holds {held} of this host: do not hand it to strangers")
    if as_json:
        document = {
            "schema_version": SCHEMA_VERSION,
            "file": str(file),
            "sha256": manifest.sha256,
            "size": manifest.size,
            "image": _document(manifest.image),
        }
        print_json(render_json(document))
    else:
        click.echo(escape_line(f"{file}: {name}, {manifest.size / 1e6:.0f} MB, sha256 {manifest.sha256}"))


@command.command(name="import", epilog="\b\nExample:\n  mindx image import python.tar")
@click.argument("file", type=click.Path(path_type=Path))
@verbosity_options
@json_option
def import_image(file: Path, as_json: bool) -> None:
    """Load an image that `mindx image export` wrote, after its digest was compared.

    An image is as trusted as whoever made the file: its programs are what your plans run.
    """
    from mindx.sandbox.image import ensure_derived
    from mindx.sandbox.image_archive import import_image as read

    if not file.is_file():
        raise InputError("image_file_unreadable", f"{file} is no file; `mindx image export` writes one")
    with _engine() as client, progress() as tell:
        record = read(client, file, tell)
        ensure_derived(client, record.image_id, tell)
    if as_json:
        print_json(render_json(_document(record)))
    else:
        click.echo(escape_line(f"{record.name} is there: {record.image_id}"))


def _document(record: BaseImage, labels: Any = None) -> dict[str, Any]:
    document = {"schema_version": SCHEMA_VERSION, **record.plain()}
    return document if labels is None else {**document, "labels": dict(labels)}
