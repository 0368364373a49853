"""The log of an agent with goals on stderr, as its parts write it: who, how grave, what."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from mindx.cli.escape import escape_line, shortened
from mindx.cli.prose import note
from mindx.cli.verbosity import quiet

SOURCES = ("bdi_agent", "tool.SimpleCoder")
MAX_LINE = 1000  # characters


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Print one line; what the record quotes is harmless."""
        text = escape_line(f"{record.name} - {record.levelname} - {record.getMessage()}", ci=False)
        note(shortened(text, MAX_LINE))


@contextmanager
def log_trail(sources: tuple[str, ...] = SOURCES) -> Iterator[None]:
    """Show inside the block what these sources log, unless --quiet was given."""
    handler = _Lines()
    loggers = [] if quiet() else [logging.getLogger(name) for name in sources]
    before = [(logger, logger.level) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger, level in before:
            logger.removeHandler(handler)
            logger.setLevel(level)
