"""`python -m mindx` is `mindx`."""

from __future__ import annotations

from mindx.cli.main import main

if __name__ == "__main__":
    main()
