"""Networks as drawings."""
