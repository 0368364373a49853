"""Pure words: plans, commands, receipts, observations and runs. Imports nothing but errors."""
