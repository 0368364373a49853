"""What the model is told: an append-only record of a run, packed into the model's context before each thought."""
