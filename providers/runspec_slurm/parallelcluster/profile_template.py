"""The profile that `runspec init --provider parallelcluster` begins with."""

PROFILE = """\
# Settings of your account for runspec. Nothing here is secret: secrets are named, and stay where they are.
providers:
  parallelcluster:
    region: us-east-1
    key_pair: my-key                    # EC2 key pair; ssh_key: ~/.ssh/my-key.pem where ssh does not find it
    subnets: [subnet-0123456789abcdef0] # of the queues; the head node is in the first, or in head_subnet
    os: ubuntu2204
    # cluster: training                 # a name: it can be updated, and is shared by all jobs
    # queues:
    #   cpu: {instance_types: [c6i.4xlarge], max_count: 4}
    #   gpu: {capacity: spot, instance_types: [g5.12xlarge], max_count: 8, placement: true}
    # storage:
    #   workspace: {mount: /workspace, size_gib: 1200, data: s3://my-bucket/workspace}
"""
