"""How long the agent waits for programs and for other nodes, in seconds, and the oldest time of a file.

A node sends heartbeats. It counts as lost when its heartbeat has not changed for a lease, which is several heartbeats
long, because a busy machine or store may delay some of them. Nodes meet in one of three ways, each with intervals of
its own: in a folder that they share, in the store of the run, or as members of an elastic job.
"""

# The grace period: between SIGTERM and SIGKILL, for a program to save and exit. RUNSPEC_GRACE_S sets another one.
GRACE_S = 10  # on the user's own machine, as with `docker stop`
# Where a service ends jobs: AWS Batch and Slurm (KillWait) leave 30 s between their own two signals.
SERVICE_GRACE_S = 20  # signed.sh has the same number
SIMULATED_GRACE_S = 30.0  # with which `runspec simulate` and the benchmarks count
UNKNOWN_GRACE_S = 30.0  # of a run whose settings are damaged: longer than each default
# After the grace period: for a node to save its outputs, before others go on without it.
SAVE_S = 120

# In a folder that all nodes share, where a request takes milliseconds.
BEAT_S = 1.0
LEASE_S = 30.0  # RUNSPEC_LEASE_S sets another one
MEET_S = 600.0  # for all nodes to join; RUNSPEC_MEET_TIMEOUT_S sets another one

# In the store of the run, where each request costs time and money, and machines may start one after the other.
STORE_BEAT_S = 15.0
STORE_LEASE_S = 120.0
STORE_MEET_S = 3600.0  # for the last node to join: its machine may have to be started first
STORE_MOMENT_S = 20.0  # the same, if nodes that never join need not be waited for
STORE_SETTLE_S = 20.0  # for the other nodes to record their ends, after a launcher has failed

# Members of an elastic job. Each heartbeat is a put and a get of each node: 17,280 of each a day at 5 s.
ELASTIC_BEAT_S = 5.0  # RUNSPEC_BEAT_S sets another one
ELASTIC_FOLDER_BEAT_S = 1.0  # the same in a folder
ELASTIC_FOLDER_LOOK_S = 0.05  # between two reads of a folder while a generation is formed
ELASTIC_LEASE = 3  # heartbeats in a lease: a node that is lost stops the others for that long
ELASTIC_JOIN_S = 3.0  # the least time for more nodes to join before a generation starts
ELASTIC_START_S = 60.0  # for the first node to write the address at which its generation meets

# The node that builds an environment in a shared folder, for which the others wait.
BUILD_BEAT_S = 5.0
# Another node then takes its lock. A compiler may leave a machine no time for heartbeats.
BUILD_LEASE_S = 60.0

OLDEST_MTIME_S = 315532800  # 1 January 1980: zip, and with it wheels, refuses earlier dates
