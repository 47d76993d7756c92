"""The spec: its models, and the rules that its fields must satisfy."""
