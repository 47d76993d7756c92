"""The resources that a node requests, and the VM sizes that provide them."""
