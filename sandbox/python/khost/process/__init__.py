"""Processes that fork one child a request, and what confines a child."""
