"""What a node requests, the instance types and sizes of Fargate that hold it, and prices."""
