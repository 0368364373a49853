"""The policy: what a plan may do, judged for every Command."""
