"""Suffixes: run only what an edit can change, from activations that are kept."""
