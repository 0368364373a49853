"""The loop, sessions and runs."""
