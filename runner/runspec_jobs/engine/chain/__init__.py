"""Chains: their jobs as they are planned, how each has ended, and which one starts next."""
