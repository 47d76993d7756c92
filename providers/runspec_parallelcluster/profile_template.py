"""The profile that `runspec init --provider parallelcluster` writes, to be filled in."""

PROFILE = """\
# Settings of your account for runspec. This file contains no secrets, only where they are stored.
providers:
  parallelcluster:
    region: us-east-1
    key_pair: my-key                    # EC2 key pair; add ssh_key: ~/.ssh/my-key.pem if ssh does not find the key
    subnets: [subnet-0123456789abcdef0] # of the queues; the head node uses the first one, or head_subnet
    os: ubuntu2204
    # cluster: training                 # with a name, the cluster can be updated, and all jobs share it
    # queues:
    #   cpu: {instance_types: [c6i.4xlarge], max_count: 4}
    #   gpu: {capacity: spot, instance_types: [g5.12xlarge], max_count: 8, placement: true}
    # storage:
    #   workspace: {mount: /workspace, size_gib: 1200, data: s3://my-bucket/workspace}
"""
