"""Run train_digits.py, and note in a file of each process when it has done which step, of how many processes.

python noted.py FOLDER_OF_THE_TRAINING FOLDER_OF_NOTES ARGUMENT...
"""

import importlib
import os
import sys
import time

folder, notes = sys.argv[1:3]
del sys.argv[1:3]
sys.path.insert(0, folder)
training = importlib.import_module("train_digits")
tell = training.tell
world = os.environ["WORLD_SIZE"]


def told(step: int) -> None:
    print(f"{time.time():.3f} {step} {world}", file=file, flush=True)
    tell(step)


vars(training).update(tell=told)
with open(os.path.join(notes, str(os.getpid())), "a", encoding="ascii") as file:
    code = training.main()
sys.exit(code)
