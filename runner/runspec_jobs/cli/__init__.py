"""The command line: the one place that prints, and that turns errors into words."""
