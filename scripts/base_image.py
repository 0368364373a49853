#!/usr/bin/env python3
"""Sees to it that the engine has the base image and the image for sessions: `base_image.py [NAME]`."""

from __future__ import annotations

import sys

from mindx.errors import MindxError
from mindx.sandbox.base_image import ensure_base
from mindx.sandbox.engine import connect
from mindx.sandbox.image import ensure_derived


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else "python"
    try:
        client = connect()
        base = ensure_base(client, name, say)
        ensure_derived(client, base.image_id, say)
    except MindxError as error:
        say(error.message)
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted; nothing was left behind")
        return 130
    say(f"{name} is there ({base.image_id[:19]}, {len(base.packages)} packages)")
    return 0


def say(line: str) -> None:
    print(f"image: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
