"""The whole network at a glance."""
