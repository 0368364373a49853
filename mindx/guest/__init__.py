"""Runs in the container as PID 1; standard library only, Python 3.8 or newer."""
