"""Prices with tax, in cents."""


def with_tax(cents: int, percent: int) -> int:
    """Return the price with tax, rounded half up."""
    return cents + cents * percent // 100
