"""A comparison as text and as a page."""
