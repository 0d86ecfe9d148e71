"""Many runs: studies over configurations, on any `concurrent.futures` executor.

Rows are on disk as they come; a study that was killed goes on where it was.
"""
