"""Probes that test beliefs about Azure against a real account."""
