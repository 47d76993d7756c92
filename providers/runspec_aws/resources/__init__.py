"""What a node asks for, and the instance types and kind of job that satisfy it."""
