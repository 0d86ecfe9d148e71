"""Numbers of things in sentences."""


def many(count: int, thing: str) -> str:
    """`1 image`, `1,200 images`."""
    return f"{count:,} {thing}{'s' * (count != 1)}"
