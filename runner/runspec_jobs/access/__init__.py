"""Connections from this machine to the ports of nodes."""
