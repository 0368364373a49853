"""One run of mmdebstrap: the root file system of an image as a tar, from the host's own package sources."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from mindx.errors import ImageError
from mindx.sandbox.apt_sources import Distribution, Source
from mindx.sandbox.image_definition import ImageDefinition
from mindx.sandbox.image_records import PackageVersion

# What the host's apt needs to reach its mirrors; the rest of its configuration is about the host itself.
_APT_OPTIONS = re.compile(
    r"Acquire::(?:(?:https?|ftp)(?:::[\w.:-]+)?::(?:Proxy|Proxy-Auto-Detect|CAInfo|CAPath|Verify-Peer|Verify-Host|SslCert"
    r"|SslKey)|Check-Valid-Until|Check-Date|Max-FutureTime|Retries|ForceIPv4|ForceIPv6) \"[^\"]+\";"
)
_KEPT_LINES = 30
_GRACE_S = 30
_LOOK_EVERY_S = 5
_SILENCE_S = 1800
# The unpacked image (230 MB), its tar (205 MB), the packages and their lists, and some room.
_NEEDED_BYTES = 700_000_000
_FULL_BYTES = 4_000_000


def build_tar(
    definition: ImageDefinition,
    distribution: Distribution,
    sources: Sequence[Source],
    certificates: Sequence[str],
    folder: Path,
    progress: Callable[[str], None],
) -> Path:
    """Write the root file system of `definition` to a tar in `folder` and return its path; blocking.

    `progress` gets each line that mmdebstrap says; when it raises, the build is ended and cleaned up. Raises
    ImageError: image_no_builder, image_no_space, image_no_rights, image_build_failed.
    """
    program = shutil.which("mmdebstrap")
    if program is None:
        raise ImageError(
            "image_no_builder",
            "cannot build an image: mmdebstrap is not installed. `make engine` installs it.",
        )
    if shutil.disk_usage(folder).free < _NEEDED_BYTES:
        raise _no_space()
    # apt reads keys and certificates as another user, and in a user namespace of its own.
    folder.chmod(0o755)
    target = folder / "root.tar"
    command = [
        *_own_mounts(),
        program,
        "--mode=auto",
        "--format=tar",
        f"--variant={definition.variant}",
        f"--include={','.join(definition.packages)}",
        *[f"--dpkgopt=path-exclude={pattern}" for pattern in definition.exclude],
        *[f"--dpkgopt=path-include={pattern}" for pattern in definition.include],
        *[f"--aptopt={option}" for option in _host_apt_options()],
        *_hooks(definition, _write_files(folder, "host-certificate-{}.crt", certificates)),
        distribution.codename,
        str(target),
        *_mirrors(sources, folder),
    ]
    _run(command, folder, progress)
    return target


def read_packages(tar: IO[bytes]) -> tuple[PackageVersion, ...]:
    """Return the packages that dpkg's status file lists as installed, sorted by name. Raises ImageError.

    `tar` holds a whole root file system, or that file alone.
    """
    try:
        with tarfile.open(fileobj=tar, mode="r:") as archive:
            for member in archive:
                if member.name.lstrip("./") in ("var/lib/dpkg/status", "status"):
                    content = archive.extractfile(member)
                    text = content.read().decode("utf-8", "replace") if content else ""
                    return _parse_status(text)
    except (OSError, tarfile.TarError) as error:
        raise ImageError("image_build_failed", f"cannot read the image that was built: {error}") from error
    raise ImageError("image_build_failed", "the image that was built holds no list of packages. Try again.")


def _parse_status(text: str) -> tuple[PackageVersion, ...]:
    packages = []
    for stanza in text.split("\n\n"):
        values = dict(line.split(": ", 1) for line in stanza.splitlines() if re.match(r"[A-Z][\w-]*: ", line))
        if values.get("Status", "").endswith(" installed"):
            packages.append(
                PackageVersion(
                    name=values.get("Package", ""),
                    version=values.get("Version", ""),
                    architecture=values.get("Architecture", ""),
                )
            )
    return tuple(sorted(packages, key=lambda package: package.name))


def _hooks(definition: ImageDefinition, certificate_paths: Sequence[Path]) -> list[str]:
    hooks = [f'--customize-hook=ln -s {target} "$1"{link}' for link, target in definition.links]
    if certificate_paths:
        names = " ".join(str(path) for path in certificate_paths)
        hooks += [
            f"--customize-hook=copy-in {names} /usr/local/share/ca-certificates/",
            '--customize-hook=chroot "$1" update-ca-certificates',
        ]
    # Neither mirrors nor the host's proxies are the business of what runs in the image.
    leftovers = ("etc/apt/sources.list", "etc/apt/sources.list.d/*", "etc/apt/apt.conf.d/99mmdebstrap", "var/log/*.log")
    removed = " ".join(f'"$1"/{name}' for name in leftovers)
    return [*hooks, f"--customize-hook=rm -rf {removed}"]


def _mirrors(sources: Sequence[Source], folder: Path) -> list[str]:
    lines = []
    for number, source in enumerate(sources):
        key_path = _write_files(folder, f"key-{number}-{{}}.asc", [source.inline_key])[0] if source.inline_key else ""
        lines.append(source.one_line(str(key_path)))
    return lines


def _write_files(folder: Path, pattern: str, texts: Sequence[str]) -> list[Path]:
    paths = []
    for number, text in enumerate(texts):
        path = folder / pattern.format(number)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
        paths.append(path)
    return paths


def _own_mounts() -> list[str]:
    """Return what to put before the command so that its mounts end with it, however it ends; [] where that fails."""
    prefix = ["unshare", "--mount", "--"]
    try:
        subprocess.run([*prefix, "true"], capture_output=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return prefix


def _host_apt_options() -> list[str]:
    try:
        dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [line for line in dump.splitlines() if _APT_OPTIONS.fullmatch(line)]


def _run(command: Sequence[str], folder: Path, progress: Callable[[str], None]) -> None:
    """Run to the end; a group of its own, so that a Ctrl-C reaches us first and clean-up stays in our hands."""
    # Its own temporary folder goes into ours, which is removed whatever happens to it.
    environ = {**os.environ, "TMPDIR": str(folder), "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environ,
        start_new_session=True,
    )
    said: deque[str] = deque(maxlen=_KEPT_LINES)
    try:
        for line in _read_lines(process, folder):
            said.append(line)
            progress(line)
        status = process.wait()
    except BaseException:
        _end(process)
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()
    if status != 0:
        raise failure_of(list(said))


def _read_lines(process: subprocess.Popen[bytes], folder: Path) -> Iterator[str]:
    """Yield what it says, line by line. Raises ImageError when the disk fills up, or nothing moves any more.

    apt can wait for ever for a helper of its own that met a full disk, so its silence has to be looked into.
    """
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    rest = b""
    heard_at = time.monotonic()
    while True:
        if not select.select([descriptor], [], [], _LOOK_EVERY_S)[0]:
            if shutil.disk_usage(folder).free < _FULL_BYTES:
                raise _no_space()
            if time.monotonic() - heard_at > _SILENCE_S:
                raise ImageError(
                    "image_build_failed",
                    f"cannot build the image: nothing moved for {_SILENCE_S // 60} minutes. "
                    "Check that `apt-get update` works, then try again.",
                )
            continue
        heard_at = time.monotonic()
        piece = os.read(descriptor, 65536)
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line.decode("utf-8", "replace").rstrip() for line in lines)
        if not piece:
            return


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask mmdebstrap to clean up after itself; when it does not within 30 s, end all of it.

    The whole group is asked, as a terminal does it: mmdebstrap itself ignores signals and waits for its children.
    """
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.communicate(timeout=_GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def failure_of(said: Sequence[str]) -> ImageError:
    """Return what to tell of a build whose last lines were these."""
    text = "\n".join(said)
    details = {"output": list(said)}
    if "No space left on device" in text or "not enough free space" in text.lower():
        return _no_space(details)
    if re.search(r"unable to pick chroot mode|need to be root|not allowed to unshare|newuidmap|must be root", text):
        return ImageError(
            "image_no_rights",
            "cannot build the image: mmdebstrap needs root here. Run `make engine` or `mindx image build` with sudo.",
            details=details,
        )
    faults = [line for line in said if line.startswith(("E:", "Err:", "W: Failed", "error:"))] or list(said)
    unknown = re.findall(
        r"(?m)^E: (?:Unable to locate package (\S+)|Package '(\S+)' has no installation candidate)", text
    )
    if unknown:
        names = ", ".join(dict.fromkeys(one or other for one, other in unknown))
        return ImageError(
            "image_package_unknown",
            f"cannot build the image: the distribution has no package {names}. Find the right name with "
            "`apt-cache search WORD`, and correct it in the image's `packages`.",
            details=details,
        )
    # apt's last words are mostly a consequence; the first fault is the cause.
    cause = faults[0] if faults else "it said nothing"
    return ImageError(
        "image_build_failed",
        f"cannot build the image: mmdebstrap failed: {cause}. Check that `apt-get update` works, then try again.",
        details=details,
    )


def _no_space(details: Mapping[str, list[str]] | None = None) -> ImageError:
    return ImageError(
        "image_no_space",
        f"cannot build the image: the disk that holds {tempfile.gettempdir()} is full. "
        f"Make room ({_NEEDED_BYTES // 10**6} MB), or set TMPDIR to a folder on another disk.",
        details=details,
    )
