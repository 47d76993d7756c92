"""Pools: their nodes, their identity, and how they scale."""
