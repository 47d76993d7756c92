"""Commands on a node: their files, processes and containers."""
