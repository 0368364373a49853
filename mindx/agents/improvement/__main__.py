"""`python -m mindx.agents.improvement`: where the process begins."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    if "--self-test-mode" in sys.argv[1:]:
        # In the container of a candidate there is Python alone: nothing else of mindx is imported for this.
        from mindx.agents.improvement.self_test import main
    else:
        from mindx.agents.improvement.command import main
    try:
        code = main()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
