"""The task's own Model, eager or compiled, as something to time and to profile."""
