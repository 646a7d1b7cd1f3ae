"""The health of a task, stage by stage."""
