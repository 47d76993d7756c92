"""The API server: it reads requests, checks objects by their schemas, and answers with lists and watches."""
