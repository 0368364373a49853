"""The run's folder: contents by digest, the Baseline and the Changes, each written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from mindx.core.atomic_file import write_whole
from mindx.errors import InputError, Phase
from mindx.workspace.baseline import Baseline
from mindx.workspace.changes import Change
from mindx.workspace.handle import CHUNK_BYTES, write_all

BASELINE_FILE = "baseline.json"
CHANGES_FILE = "changes.json"
SCHEMA_VERSION = 1
_DIGEST = re.compile(r"[0-9a-f]{64}")


class BlobStore:
    """Contents of files, named by their sha256, in one folder that only the user may enter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __contains__(self, sha256: str) -> bool:
        return self.path(sha256).is_file()

    def path(self, sha256: str) -> Path:
        """Return where a content lies or would lie. Raises ValueError for what is no digest."""
        if not _DIGEST.fullmatch(sha256):
            raise ValueError(f"{sha256!a} is no sha256")
        return self.folder / sha256

    def writer(self) -> BlobWriter:
        """Return a place for one more content, of yet unknown digest."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return BlobWriter(self)

    def add(self, chunks: Iterable[bytes]) -> str:
        """Keep a content and return its sha256."""
        with self.writer() as writer:
            for chunk in chunks:
                writer.write(chunk)
            return writer.keep()

    def chunks(self, sha256: str) -> Iterator[bytes]:
        """Yield a content, and raise InputError at its end if it is not what its name says.

        Whoever takes it must not use it before the end. Raises InputError if it is not there.
        """
        digest = hashlib.sha256()
        try:
            with open(self.path(sha256), "rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    digest.update(chunk)
                    yield chunk
        except FileNotFoundError:
            raise InputError(
                "content_missing", f"the content {sha256} is not in the run's folder; run the plan again"
            ) from None
        if digest.hexdigest() != sha256:
            raise InputError("content_damaged", f"the content {sha256} in the run's folder was altered; run it again")

    def read(self, sha256: str) -> bytes:
        """Return a content, checked against its name. Raises InputError."""
        return b"".join(self.chunks(sha256))


class BlobWriter:
    """Takes one content; without `keep` nothing of it stays."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._digest = hashlib.sha256()
        self._path = store.folder / f".{secrets.token_hex(8)}.new"
        self._handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._kept = False

    def write(self, data: bytes) -> None:
        """Add bytes."""
        write_all(self._handle, data)
        self._digest.update(data)

    @property
    def sha256(self) -> str:
        """The digest of what was written so far."""
        return self._digest.hexdigest()

    def keep(self) -> str:
        """Keep what was written under its digest, and return that."""
        os.rename(self._path, self._store.path(self.sha256))
        self._kept = True
        return self.sha256

    def __enter__(self) -> BlobWriter:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)
        if not self._kept:
            with suppress(FileNotFoundError):
                os.unlink(self._path)


def write_document(path: Path, document: dict[str, Any]) -> None:
    """Write a JSON document whole or not at all, on disk when this returns. Raises OSError."""
    write_whole(path, json.dumps(document, indent=1).encode())


def read_document(path: Path) -> dict[str, Any]:
    """Return a JSON document that `write_document` wrote. Raises InputError: missing, damaged, of a newer mindx."""
    try:
        document = json.loads(path.read_bytes())
        if not isinstance(document, dict) or document.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(f"its schema_version is not {SCHEMA_VERSION}")
    except FileNotFoundError:
        raise InputError(
            "run_file_missing", f"{path.name} is not in the folder of the run", phase=Phase.APPLY
        ) from None
    except ValueError as error:
        raise _damaged(path, error) from None
    return document


class ChangesFolder:
    """The files of one run that the workspace writes: `files/` (contents), baseline.json and changes.json."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.blobs = BlobStore(path / "files")

    def write_baseline(self, baseline: Baseline) -> None:
        """Keep what was copied in. Raises OSError."""
        write_document(self.path / BASELINE_FILE, {"schema_version": SCHEMA_VERSION, **baseline.to_dict()})

    def write_changes(self, changes: Iterable[Change]) -> None:
        """Keep the Changes. Raises OSError."""
        document = {"schema_version": SCHEMA_VERSION, "changes": [change.to_dict() for change in changes]}
        write_document(self.path / CHANGES_FILE, document)

    def read_baseline(self) -> Baseline:
        """Return what was copied in. Raises InputError."""
        path = self.path / BASELINE_FILE
        try:
            return Baseline.from_dict(read_document(path))
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(path, error) from None

    def read_changes(self) -> tuple[Change, ...]:
        """Return the Changes of the run. Raises InputError."""
        path = self.path / CHANGES_FILE
        try:
            return tuple(Change.from_dict(item) for item in read_document(path)["changes"])
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError("run_file_damaged", f"{path.name} of the run cannot be understood: {error}; run the plan again")
