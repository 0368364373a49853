"""The kernel of the society: who is there, what they ask of each other, how all is, and what should get better."""
