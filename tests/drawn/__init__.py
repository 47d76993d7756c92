"""Answers of services, drawn from their official descriptions and served to our clients over loopback HTTP.

`schema` draws values, `tests.support.http_server` serves them, `drawing` repeats a test over drawn answers with a kept
seed, and `planted` puts a fault into a client for as long as a test takes.
"""
