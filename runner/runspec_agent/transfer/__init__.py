"""File transfers between a node and the store: inputs, outputs, and logs."""
