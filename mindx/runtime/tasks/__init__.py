"""Tasks: work that outlives sessions, by a ledger, a memory that the agent reads, and a run that takes it up again."""
