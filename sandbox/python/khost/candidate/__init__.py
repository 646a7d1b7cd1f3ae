"""Candidates in Python: recorded as plans, or played under one of the rule sets."""
