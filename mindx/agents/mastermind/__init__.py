"""Mastermind: assesses what the system can do, has what is missing developed, and keeps the record of its campaigns."""
