"""The files of jobs in Blob storage."""
