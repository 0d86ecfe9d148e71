"""A study as figures and as a page."""
