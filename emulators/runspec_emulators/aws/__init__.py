"""An emulator of AWS Batch and CloudWatch Logs, on the loopback interface of this machine.

Rules come from botocore's service models, whose documentation strings hold most of them, and from
the user guides; each rule is next to the code that enforces it, with its source. Jobs really run: as
processes, or with podman.

Not supported: IAM and signatures, real scaling, shares and scheduling policies, job definitions
with ecsProperties or eksProperties, arrays of multi-node jobs, consumable resources, service jobs,
`$(VAR)` in commands, volumes and mount points, devices, ulimits, GPUs, propagateTags, updates of
the infrastructure of environments, filter patterns and descending order of FilterLogEvents, tokens
that expire after 24 hours. The engine "process" ignores images and limits of memory. If the
emulator itself is killed, its jobs keep running.

Chosen here, because the service does not document it: statusReason of a job whose dependency failed;
whether attempts[] contains an attempt that is still running (here it does not); that a task of Fargate
Spot which exits with 0 after it was interrupted has not succeeded; the messages of most errors. The
statusReason of a timeout is as users report it, not from the service's pages.
"""

from runspec_emulators.aws.http import Server, serve
from runspec_emulators.aws.settings import Settings

__all__ = ["Server", "Settings", "serve"]
