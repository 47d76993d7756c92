"""Batch AI files in and out: `runspec import` and `runspec plan --export`."""
