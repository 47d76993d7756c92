"""What `runspec setup aws-batch` makes in an account: a bucket, roles, a security group, and a network if needed."""
