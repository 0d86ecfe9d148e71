"""Make what each part of the page shows: functions from a session and a selection to `mo.Html`."""
