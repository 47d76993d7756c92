"""Streams that providers read and write: logs, objects of a store, and tars of folders."""
