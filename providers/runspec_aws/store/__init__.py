"""The files of jobs in S3."""
