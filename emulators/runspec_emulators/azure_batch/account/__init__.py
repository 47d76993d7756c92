"""The pools and images of the account, and its resources in the Resource Manager."""
