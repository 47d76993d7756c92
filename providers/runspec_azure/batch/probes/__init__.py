"""Probes that check assumptions about Azure in a real account."""
