"""Keep the store of a torchrun's rendezvous, in a process of its own, until it is killed; say its port.

https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.TCPStore
"""

import importlib
import signal

dist = importlib.import_module("torch.distributed")
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
signal.pause()
