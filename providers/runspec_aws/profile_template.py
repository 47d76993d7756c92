"""The profile that `runspec init --provider aws-batch` writes, with values to replace."""

PROFILE = """\
# Settings of an account, by provider: no job file names them.
providers:
  aws-batch:
    region: eu-central-1
    bucket: my-bucket                 # it is there already; all keys begin with runspec/
    # The job's own role: runspec policy --job JOB.yaml prints the rights it needs.
    job_role: arn:aws:iam::123456789012:role/runspec-job
    # Without one, and for images without Python: files: signed, see docs/aws-batch.md.
    # Gets images and secrets and writes logs: the policy AmazonECSTaskExecutionRolePolicy.
    execution_role: arn:aws:iam::123456789012:role/ecsTaskExecutionRole
    # A queue that is there is used as it is:
    # queue: my-queue
    # Without one, these make the machines; runspec doctor aws-batch looks at all of it.
    instance_role: arn:aws:iam::123456789012:instance-profile/ecsInstanceRole
    subnets: [subnet-0123456789abcdef0]
    security_groups: [sg-0123456789abcdef0]   # nodes of one job must reach each other
    max_vcpus: 64
    # secrets: {hf: "aws-sm:arn:aws:secretsmanager:eu-central-1:123456789012:secret:hf-a1b2c3"}
    # shared: {workspace: "efs:fs-0123456789abcdef0"}
"""
