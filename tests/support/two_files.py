"""A program of jobs that writes two files of one checkpoint, a step after the other, and says where it began."""

NAMES = ("a.bin", "b.bin")
# Its words: the variable with the folder, the size of a file, and a file that ends it after a step when it is there.
# The time between two steps is one in which nothing is written, or none.
PROGRAM = """
import os, random, sys, time

at, size, end = os.environ[sys.argv[1]], int(sys.argv[2]), sys.argv[3]
paths = [os.path.join(at, name) for name in ("a.bin", "b.bin")]

def step_of(path):
    if not os.path.exists(path):
        return 0
    with open(path, "rb") as file:
        head = file.read(8)
        file.seek(-8, 2)
        assert file.read() == head
    return int(head)

steps = [step_of(path) for path in paths]
print("found", *steps, flush=True)
step, choice = steps[0], random.Random(steps[0])
while True:
    step += 1
    for path in paths:
        part = at + "." + os.path.basename(path)
        with open(part, "wb") as file:
            head = b"%08d" % step
            file.write(head)
            file.truncate(size - 8)
            file.seek(0, 2)
            file.write(head)
    for path in paths:
        os.replace(at + "." + os.path.basename(path), path)
    if os.path.exists(end):
        break
    time.sleep(choice.choice([0.05, 1.3, 1.3]) * (1 + size // 50_000_000))
"""
