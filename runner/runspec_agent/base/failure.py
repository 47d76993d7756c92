"""What ends a node, and the codes that services and other nodes act on."""

USAGE = 2  # the words are wrong: trying again does not help
LOST = 75  # a node did not come, or went away: trying again may help
STOPPED = 143  # 128 + SIGTERM, as the schedulers' "was it reclaimed?" rules expect


class Failure(Exception):
    """What ends this node: one line for stderr, and the exit code."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code
