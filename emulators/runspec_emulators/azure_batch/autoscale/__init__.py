"""Pools that scale by a formula."""
