"""Runs a job, which one YAML file describes, on one of many batch services."""

__version__ = "0.3.0"
