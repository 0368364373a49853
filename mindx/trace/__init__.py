"""The record of a Run."""
