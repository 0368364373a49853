"""The bench: every figure of docs/specification.md, measured against a baseline of the same run."""
