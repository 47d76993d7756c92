"""Probes that test assumptions about AWS in a real account."""
