"""A task's file: loaded, looked at, run, and laid out in memory that the judge owns."""
