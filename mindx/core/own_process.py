"""Starting mindx's own Python in another process, without the modules of the folder that the user stands in.

Python looks for modules in the current folder first when it is started with -c or -m: in a stranger's project an
`asyncio.py` would run with the user's rights.
"""

from __future__ import annotations

import os
import sys

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def own_program(program: str, *arguments: str, here: bool = False) -> tuple[str, ...]:
    """Return the argv that runs a Python program which may import mindx.

    `here`: what is found nowhere else is looked for in the current folder.
    """
    places = [_ROOT, *(_current_folder() if here else ())]
    first = f"import sys; sys.path = [place for place in sys.path if place] + {places!r}"
    return (sys.executable, "-c", f"{first}\n{program}", *arguments)


def own_module(name: str, *arguments: str, here: bool = False) -> tuple[str, ...]:
    """Return the argv that runs a module of mindx as a program, as `python -m` would; `here` as for `own_program`."""
    program = f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"
    return own_program(program, *arguments, here=here)


def _current_folder() -> tuple[str, ...]:
    try:
        return (os.getcwd(),)
    except FileNotFoundError:  # somebody has removed it: nothing is found there
        return ()
