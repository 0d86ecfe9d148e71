"""Running only what an edit can change."""
