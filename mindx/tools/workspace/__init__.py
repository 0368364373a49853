"""The tools that work on the session's files, in its container and by its driver alone."""
