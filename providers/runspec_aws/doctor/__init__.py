"""Find problems that would stop jobs on AWS Batch, before anything is created."""

from runspec_aws.doctor.findings import examine as examine, examine_job as examine_job
