"""What a node asks for, and the VM sizes that satisfy it."""
