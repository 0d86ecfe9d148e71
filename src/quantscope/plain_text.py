"""Words for people: numbers of things in sentences, and names that fit on a line."""


def many(count: int, thing: str) -> str:
    """`1 image`, `1,200 images`."""
    return f"{count:,} {thing}{'s' * (count != 1)}"


def printable(name: str) -> str:
    """A name on one line that cannot steer a terminal: what does not print is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def elided(text: str, most: int) -> str:
    """At most `most` characters; what is left out is in the middle, where names differ least."""
    if len(text) <= most:
        return text
    tail = most // 2
    return f"{text[: most - tail - 1]}…{text[-tail:]}"
