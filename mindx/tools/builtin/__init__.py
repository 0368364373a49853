"""The tools that come with mindx and need no sandbox."""
