"""What a cluster and its nodes say of themselves."""
