"""Agents together: who runs what below whom, in what order, and within which bounds."""
