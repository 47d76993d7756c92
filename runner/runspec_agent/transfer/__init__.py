"""Moving files between a node and the store: inputs, outputs, and logs."""
