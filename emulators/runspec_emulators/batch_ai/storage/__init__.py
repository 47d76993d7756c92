"""Volumes of nodes, mirrors of containers, and signed links to files."""
