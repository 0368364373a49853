"""The Workspace: copied in, compared, and handed back as Changes."""
