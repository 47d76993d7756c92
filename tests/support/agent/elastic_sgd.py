"""A training without any library, for tests: stochastic gradient descent, whose sums go through the first process.

It stands beside the `batches.py` of specs/elastic. What it writes tells all: the loss of each step, and its samples.
Each node writes the generations that it was part of into an output of its own, if the job has one, `OWN`.
Its words are the number of steps, and a file that says how long to sleep after each.
"""

OWN = {"name": "own", "path": "/job/own", "from": "all"}
PROGRAM = '''\
import json
import os
import signal
import socket
import sys
import time

from batches import Batches

SAMPLES, BATCH, STEPS = 60, 12, int(sys.argv[1])
OUT, PACE = os.environ["RUNSPEC_OUTPUT_OUT"], sys.argv[2]
RANK, WORLD = int(os.environ["RUNSPEC_RANK"]), int(os.environ["RUNSPEC_WORLD_SIZE"])
PLACE = os.environ["RUNSPEC_LEADER"], int(os.environ["RUNSPEC_PORT"])
MISSED_S = 2.0  # for the others, once this process was told to end
told = []


class Gone(Exception):
    pass


def received(link):
    data, began = b"", 0.0
    while not data.endswith(b"\\n"):
        try:
            more = link.recv(65536)
        except socket.timeout:
            began = began or (time.monotonic() if told else 0.0)
            if told and time.monotonic() - began > MISSED_S:
                raise Gone from None
            continue
        except OSError:
            raise Gone from None
        if not more:
            raise Gone
        data += more
    return json.loads(data.decode())


def send(link, value):
    try:
        link.sendall(json.dumps(value).encode() + b"\\n")
    except OSError:
        raise Gone from None


def met():
    """Return the connections: of the first process to all others, of another one to the first."""
    until = time.monotonic() + 60
    if RANK > 0:
        while True:
            try:
                link = socket.create_connection(PLACE, 1)
                link.settimeout(0.2)
                return [link]
            except OSError:
                if told or time.monotonic() > until:
                    raise Gone from None
                time.sleep(0.05)
    links = []
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(PLACE)
        server.listen()
        server.settimeout(0.2)
        while len(links) < WORLD - 1:
            try:
                link = server.accept()[0]
                link.settimeout(0.2)
                links.append(link)
            except socket.timeout:
                if told or time.monotonic() > until:
                    raise Gone from None
    return links


def added(links, own):
    """Return the sum of everybody's numbers and lists."""
    if RANK > 0:
        send(links[0], own)
        return received(links[0])
    for link in links:
        other = received(link)
        own = [mine + theirs for mine, theirs in zip(own, other)]
    for link in links:
        send(link, own)
    return own


def loaded():
    try:
        with open(os.path.join(OUT, "state.json")) as file:
            return json.load(file)
    except FileNotFoundError:
        return {"w": [0.0, 0.0], "losses": [], "samples": [], "worlds": []}


def save(state):
    part = OUT.rstrip("/") + ".part"
    with open(part, "w") as file:
        json.dump(state, file)
    os.replace(part, os.path.join(OUT, "state.json"))


def step(links, batches, state):
    number = len(state["losses"])
    mine, count = batches.of(number, RANK, WORLD), len(batches.whole(number))
    a, b = state["w"]
    own = [0.0, 0.0, 0.0, len(told), mine]
    for i in mine:
        x = (i * 7919 % 101) / 101.0
        error = a * x + b - (3.0 * x - 1.0)
        own[0] += error * x / count
        own[1] += error / count
        own[2] += error * error / count
    da, db, loss, stops, samples = added(links, own)
    state["w"] = [a - 0.5 * da, b - 0.5 * db]
    state["losses"].append(loss)
    state["samples"].append(sorted(samples))
    state["worlds"].append(WORLD)
    return bool(stops)


def main():
    signal.signal(signal.SIGTERM, lambda *_: told.append(1))
    if "RUNSPEC_OUTPUT_OWN" in os.environ:
        with open(os.path.join(os.environ["RUNSPEC_OUTPUT_OWN"], "generations"), "a") as file:
            file.write(os.environ["RUNSPEC_GENERATION"] + "\\n")
    state, batches = loaded(), Batches(SAMPLES, BATCH)
    print(
        "generation",
        os.environ["RUNSPEC_GENERATION"],
        "rank",
        RANK,
        "of",
        WORLD,
        "at",
        len(state["losses"]),
        flush=True,
    )
    try:
        links = met()
        while len(state["losses"]) < STEPS:
            stop = step(links, batches, state)
            with open(os.environ["RUNSPEC_PROGRESS"], "a") as file:
                file.write("{}\\n".format(len(state["losses"])))
            if stop or len(state["losses"]) % 20 == 0:
                if RANK == 0:
                    save(state)
            if stop:
                return 143
            with open(PACE) as file:
                time.sleep(float(file.read() or 0))
    except Gone:
        if RANK == 0:
            save(state)
        return 143
    if RANK == 0:
        save(state)
    return 0


sys.exit(main())
'''
