"""What runs in jails beside the judge: processes that hold a task, and those that hold a candidate in Python."""
