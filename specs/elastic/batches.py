"""Which samples a process takes in a step, when the number of processes changes and the global batch does not.

Copy this file beside your program, or import it: it needs nothing but Python. The order of the samples depends on
the seed and the epoch alone, and the batch of a step on its number alone. So a job that goes on at step N with
other processes sees in each epoch every sample once, as if nothing had happened:

    batches = Batches(samples=60000, batch=int(os.environ["RUNSPEC_GLOBAL_BATCH"]))
    for step in range(first, batches.steps(epochs=10)):
        mine = batches.of(step, rank, world)

The gradient of a step is the sum over all of its samples divided by `len(batches.whole(step))`: add up the sums of
all processes. An average of averages is wrong as soon as shares differ.
"""

import random


def share(count, rank, world):
    """Return the positions among `count` that belong to `rank`: the remainder is dealt out one by one.

    >>> [list(share(7, rank, 3)) for rank in range(3)]
    [[0, 1, 2], [3, 4], [5, 6]]
    """
    each, more = divmod(count, world)
    first = rank * each + min(rank, more)
    return range(first, first + each + (1 if rank < more else 0))


class Batches:
    """The steps of a training over `samples`, `batch` of them in each; the last one of an epoch may have fewer."""

    def __init__(self, samples, batch, seed=0):
        self.samples, self.batch, self.seed = samples, batch, seed
        self.steps_per_epoch = -(-samples // batch)
        self._epoch, self._order = None, []

    def steps(self, epochs):
        return epochs * self.steps_per_epoch

    def whole(self, step):
        """Return the numbers of all samples of a step."""
        epoch, at = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = list(range(self.samples))
            random.Random(f"{self.seed}/{epoch}").shuffle(self._order)
            self._epoch = epoch
        return self._order[at * self.batch : (at + 1) * self.batch]

    def of(self, step, rank, world):
        """Return the numbers of the samples that process `rank` of `world` takes in a step; there may be none."""
        whole = self.whole(step)
        return [whole[i] for i in share(len(whole), rank, world)]
