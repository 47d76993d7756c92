"""Probes that test beliefs about AWS against a real account."""
