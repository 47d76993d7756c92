"""The profile that `runspec init --provider aws-batch` writes, with values to replace."""

PROFILE = """\
# Settings of your account for each provider. Job files do not contain them.
providers:
  aws-batch:
    region: us-east-1
    bucket: my-bucket                 # an existing bucket; all keys begin with runspec/
    # The role of the job itself: runspec policy --job JOB.yaml prints the permissions that it needs.
    job_role: arn:aws:iam::123456789012:role/runspec-job
    # Without a job role, and for images without Python: files: signed, see docs/aws-batch.md.
    # The role that pulls images, reads secrets and writes logs: the policy AmazonECSTaskExecutionRolePolicy.
    execution_role: arn:aws:iam::123456789012:role/ecsTaskExecutionRole
    # An existing job queue, which runspec uses as it is:
    # queue: my-queue
    # Without a queue, runspec makes one, whose machines have these settings. runspec doctor aws-batch checks them.
    instance_role: arn:aws:iam::123456789012:instance-profile/ecsInstanceRole
    subnets: [subnet-0123456789abcdef0]
    security_groups: [sg-0123456789abcdef0]   # nodes of one job must reach each other
    max_vcpus: 64
    # secrets: {hf: "aws-sm:arn:aws:secretsmanager:us-east-1:123456789012:secret:hf-a1b2c3"}
    # shared: {workspace: "efs:fs-0123456789abcdef0"}
"""
