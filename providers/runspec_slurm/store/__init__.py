"""The workspace of a cluster: files in a folder that all nodes share."""
