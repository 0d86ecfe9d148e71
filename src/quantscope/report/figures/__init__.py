"""Results as matplotlib figures: pure functions, on the page's light or dark theme."""
