"""PID 1 of the container: `python3 -I -S -E -B /mindx/guest/__main__.py`."""

import sys

if __name__ == "__main__":
    sys.path.insert(0, "/mindx")  # isolated mode leaves the script's folder out
    __import__("guest.supervisor")
    sys.modules["guest.supervisor"].main()
