"""What the schema of aws-parallelcluster says of a cluster."""
