"""Simulates when a job would finish and what it would cost, on fixed and on changing numbers of machines."""
