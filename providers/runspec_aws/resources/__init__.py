"""The resources that a node requests, and the instance types and kind of job that satisfy the request."""
