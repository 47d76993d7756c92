"""Nodes: how pools get and lose them, how they start, what they know of themselves."""
