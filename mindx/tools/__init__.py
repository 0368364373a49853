"""Tools turn an Action into Commands or a value."""
