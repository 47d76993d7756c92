"""Which try this is, where the service does not say: counted in the store, a number for each by a conditional write."""

import os

from .bucket import Bucket


def number(bucket: Bucket, prefix: str) -> int:
    """Take the first number under *prefix* that no other try has taken, from 1."""
    token = os.urandom(16).hex().encode("ascii")
    taken = [found.key[len(prefix) :] for found in bucket.listing(prefix)]
    found = max([int(name) for name in taken if name.isdigit()], default=0)
    while True:
        found += 1
        if bucket.claim("{}{}".format(prefix, found), token) == token:
            return found
