"""The command `mindx`: where the process begins."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    # While the rest is imported nothing is there yet to clean up: Ctrl-C ends us without a word, and no traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Imports make a hundred thousand objects that stay: to look through them every 700 is a tenth of a short command.
    gc.set_threshold(20_000)
    import logging

    from mindx.cli.errors import INTERRUPTED, guarded
    from mindx.cli.verbs import cli

    # What the tools log is in the trace; without a handler Python would print warnings on stderr.
    logging.getLogger().addHandler(logging.NullHandler())
    given = sys.argv[1:] if arguments is None else list(arguments)

    def work() -> Any:
        return cli.main(args=given, prog_name="mindx", standalone_mode=False)

    if "SUDO_UID" in os.environ:
        from mindx.cli.caller import for_caller, hand_over_state

        code = guarded(for_caller(work), given)
        hand_over_state()
    else:
        code = guarded(work, given)
    if code == INTERRUPTED:
        # Python remembers an interrupt that met it in an exec() and would end by SIGINT after all, not with our code.
        os._exit(code)
    if arguments is None and not sys.flags.dev_mode:  # which tells of what is still open when it takes all apart
        # The process is ours: to take a thousand modules apart, one by one, is a tenth of a short command.
        atexit._run_exitfuncs()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
