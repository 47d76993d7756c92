"""The probes of this provider. Each tests one assumption of docs/unverified.md in a real account."""

from __future__ import annotations

from collections.abc import Sequence

from runspec_aws.options import AwsOptions
from runspec_aws.probes import jobs, store
from runspec_jobs.provider.probe import BenchProbe, Probe

REQUESTS_USD = 0.0001  # some requests to S3: https://aws.amazon.com/s3/pricing/


OF_STORE = (
    Probe(
        "aws-1",
        "S3 accepts one of several simultaneous PUTs of a new object",
        2,
        REQUESTS_USD,
        store.put_where_none_is,
    ),
    Probe(
        "aws-2",
        "S3 refuses a PUT with If-Match and an older ETag",
        2,
        REQUESTS_USD,
        store.put_where_it_is_unchanged,
    ),
    Probe(
        "aws-3",
        "S3 refuses a PUT with If-Match if the object was deleted",
        2,
        REQUESTS_USD,
        store.put_where_it_was_deleted,
    ),
    Probe(
        "aws-4",
        "A signed URL of a claim overwrites no object",
        2,
        REQUESTS_USD,
        store.claim_by_url,
    ),
    Probe(
        "aws-5",
        "S3 refuses the URL of a claim without the signed header",
        2,
        REQUESTS_USD,
        store.claim_without_its_header,
    ),
    Probe(
        "aws-6",
        "A signed URL of this bucket works, with byte ranges",
        2,
        REQUESTS_USD,
        store.range_by_url,
    ),
    Probe(
        "aws-7",
        "S3 lists an object immediately after it was written",
        5,
        REQUESTS_USD,
        store.listed_at_once,
    ),
    Probe(
        "aws-8",
        "S3 lists multipart uploads, and ETags of parts are MD5",
        2,
        REQUESTS_USD,
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
        "TerminateJob ends one child of a waiting array job",
        60,
        0,
        jobs.waiting_child_ends,
        "aws-20",
    ),
    BenchProbe(
        "aws-22",
        "TerminateJob ends a waiting array job, with the given reason",
        60,
        0,
        jobs.waiting_array_ends,
        "aws-20",
    ),
    BenchProbe(
        "aws-28",
        "AWS Batch refuses a second resource with the same name",
        10,
        0,
        jobs.made_twice,
        "aws-20",
    ),
    BenchProbe("aws-23", "AWS Batch retries exit code 75", 600, 0.03, jobs.code_75_is_retried),
    BenchProbe(
        "aws-24",
        "Each attempt has a log stream and its number",
        10,
        0,
        jobs.attempts_have_logs,
        "aws-23",
    ),
    BenchProbe(
        "aws-25",
        "A variable of the job has the URL of its role's credentials",
        10,
        0,
        jobs.credentials_are_given,
        "aws-23",
    ),
    BenchProbe(
        "aws-26",
        "The log has the last line within 5 s of the job's end",
        180,
        0.01,
        jobs.last_line_is_logged,
        "aws-23",
    ),
    BenchProbe(
        "aws-27",
        "TerminateJob sends SIGTERM, and SIGKILL only later",
        180,
        0.01,
        jobs.sigterm_comes_first,
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
