"""The probes of this provider: each finds out whether a belief of docs/unverified.md holds in a real account."""

from __future__ import annotations

from collections.abc import Sequence

from runspec_aws.options import AwsOptions
from runspec_aws.probes import jobs, store
from runspec_jobs.provider import BenchProbe, Probe

CENT = 0.0001  # some requests of S3: https://aws.amazon.com/s3/pricing/


OF_STORE = (
    Probe(
        "aws-1",
        "S3 puts an object only where none is, for one of several",
        2,
        CENT,
        store.put_where_none_is,
    ),
    Probe(
        "aws-2",
        "S3 puts an object only where it is unchanged",
        2,
        CENT,
        store.put_where_it_is_unchanged,
    ),
    Probe(
        "aws-3",
        "S3 puts nothing by the ETag of what was deleted",
        2,
        CENT,
        store.put_where_it_was_deleted,
    ),
    Probe("aws-4", "A signed URL puts an object only where none is", 2, CENT, store.claim_by_url),
    Probe(
        "aws-5",
        "Such a URL is good for nothing without its header",
        2,
        CENT,
        store.claim_without_its_header,
    ),
    Probe("aws-6", "A signed URL of this bucket answers, with ranges", 2, CENT, store.range_by_url),
    Probe("aws-7", "S3 lists an object right after its write", 5, CENT, store.listed_at_once),
    Probe(
        "aws-8",
        "S3 lists uploads in parts, and ETags of parts are MD5",
        2,
        CENT,
        store.parts_by_digest,
    ),
)
OF_JOBS = (
    BenchProbe(
        "aws-20",
        "DescribeJobs and ListJobs show a job within 10 s",
        240,
        0,
        jobs.shown_at_once,
    ),
    BenchProbe(
        "aws-21",
        "TerminateJob ends one child of an array that waits",
        60,
        0,
        jobs.waiting_child_ends,
        "aws-20",
    ),
    BenchProbe(
        "aws-22",
        "TerminateJob ends an array that waits, with our reason",
        60,
        0,
        jobs.waiting_array_ends,
        "aws-20",
    ),
    BenchProbe(
        "aws-28",
        "AWS Batch makes nothing twice by one name",
        10,
        0,
        jobs.made_twice,
        "aws-20",
    ),
    BenchProbe("aws-23", "A job that ends with 75 is tried again", 600, 0.03, jobs.tried_again),
    BenchProbe(
        "aws-24",
        "Each try has a log stream and its number",
        10,
        0,
        jobs.tries_have_logs,
        "aws-23",
    ),
    BenchProbe(
        "aws-25",
        "A job gets its role's credentials from the address that a variable names",
        10,
        0,
        jobs.credentials_are_given,
        "aws-23",
    ),
    BenchProbe(
        "aws-26",
        "The last line is in the log within 5 s of the end",
        180,
        0.01,
        jobs.last_line_comes,
        "aws-23",
    ),
    BenchProbe(
        "aws-27",
        "TerminateJob tells a program to end, and waits",
        180,
        0.01,
        jobs.told_to_end,
        "aws-23",
    ),
    BenchProbe(
        "aws-29",
        "A multi-node job does not run on spot machines",
        1200,
        0.02,
        jobs.gang_on_spot,
    ),
)


def probes(options: AwsOptions) -> Sequence[Probe]:
    bench = jobs.Bench(options)
    return (*OF_STORE, *(probe.on(bench) for probe in OF_JOBS))
