"""One YAML file says what a job needs; `runspec apply` runs it on any of many batch services."""

__version__ = "0.1.0"
