"""This module words things for people: numbers of things in sentences, names that fit a line."""


def many(count: int, thing: str) -> str:
    """Say how many there are, as in `1 image` and `1,200 images`."""
    return f"{count:,} {thing}{'s' * (count != 1)}"


def with_article(op_type: str) -> str:
    """Put `a` or `an` before the name of an operator, as it is spoken."""
    spoken_with_vowel = op_type[:1] in "AEIOU" or op_type in ("LSTM", "RNN")
    return f"{'an' if spoken_with_vowel else 'a'} {op_type}"


def printable(name: str) -> str:
    """Give a name on one line that cannot steer a terminal: what does not print is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def elide(text: str, most: int) -> str:
    """Shorten to `most` characters by leaving out the middle, where names differ least."""
    if len(text) <= most:
        return text
    tail = most // 2
    return f"{text[: most - tail - 1]}…{text[-tail:]}"
