"""Make a line of what should not happen, so that the page goes on."""

import sys
import traceback


def mistake(error: Exception) -> str:
    """Make a line for what should not happen: a page that goes on beats a thread that dies unseen.

    The traceback goes to the terminal, for whoever mends it.
    """
    traceback.print_exception(error, file=sys.__stderr__)
    return f"This did not work, and it is a mistake in quantscope: {error!r}"
