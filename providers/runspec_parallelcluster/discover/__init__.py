"""Discovery by the schema of aws-parallelcluster."""
