"""Specs that are right and specs that are wrong, for everything that judges specs.

Each wrong one is a right one with one change, and says where the diagnostic belongs. Some wrong ones
are wrong in what fields mean together, which a JSON Schema cannot see.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD = "apiVersion: runspec/v1\nname: job\nprovider: local\n"
SHORT = HEAD + "command: [echo, hi]\n"


@dataclass(frozen=True)
class Wrong:
    """*text* has a problem at *path*; *shape* says that a JSON Schema sees it as well."""

    text: str
    path: str
    shape: bool = True


GOOD = {
    "the shortest": SHORT,
    "an image that is built": SHORT
    + "container: {build: {context: ./, file: docker/Containerfile}}\n",
    "the entrypoint of an image": HEAD
    + "container: {image: 'a:1', entrypoint: image, args: [serve, 1]}\n",
    "times and sizes of others": SHORT + "timeout: 1-12:00\ncluster: {memory: 16Gi, cpus: 8+}\n",
    "ports": SHORT + "ports: [8888, 6006]\n",
    "ports with names": SHORT + "ports: {notebook: 8888}\n",
    "parameters": SHORT
    + """\
params: {n: 2, size: 7b, mixed: true, where: spot, time: 1h}
cluster:
  nodes: ${params.n}
  cpus: ${params.n}
  memory: ${params.n}GiB
  capacity: ${params.where}
container:
  image: a/b:${params.size}
timeout: ${params.time}
outputs:
- {name: out, path: "/job/${params.size}"}
ports:
- 888${params.n}
sweep:
  lr: ["${params.n}"]
providers:
  local:
    grace: ${params.n}s
""",
    "a script": HEAD + "run: |\n  echo hi\n",
    "numbers as words of a command": HEAD + "command: [sleep, 1, 2.5, true]\n",
    "a smoke test": SHORT + "smoke: [echo, 1]\n",
    "a smoke test that is a script": SHORT + "smoke: |\n  echo hi\n",
    "every field": HEAD
    + """\
cluster:
  nodes: 2
  capacity: spot
  cpus: 4
  memory: 16GiB
  gpus: 1
  gpu_type: V100
  disk: 100GiB
  placement: close
container:
  image: localhost/chainermn:7.8.1
  python: ">=3.9,<3.12"
  requirements: requirements.txt
  build_constraints: ["setuptools<74"]
  shm: 8GiB
mounts:
  - {name: code, source: ./mnist, target: /job/code}
  - {name: data, source: store://datasets/mnist, target: /job/data, mode: ro}
  - {name: shared, source: shared://workspace, target: /workspace, mode: rw}
outputs:
  - {name: model, path: /job/model, sync: 60s}
env: {OMP_NUM_THREADS: "4"}
secrets: {HF_TOKEN: hf}
launch: mpi
processes_per_node: 2
command: [python, "${mounts.code}/train.py", --lr, "${sweep.lr}", --out, "${outputs.model}"]
sweep: {lr: [0.1, 0.01], seed: 1..50}
max_parallel: 4
retry: {attempts: 3, spot_attempts: 10}
timeout: 1h30m
providers:
  local: {engine: process, grace: 5s, without_gpus: true}
""",
    "elastic nodes": SHORT.replace("local", "elsewhere")
    + "cluster: {nodes: {min: 1, max: 12}}\nlaunch: torchrun\nglobal_batch: 4096\n",
    "elastic MPI": SHORT.replace("local", "elsewhere")
    + "cluster: {nodes: {min: 1, max: 2}}\nlaunch: mpi\nglobal_batch: 2\n",
    "low-priority": SHORT + "cluster: {capacity: low-priority}\n",
    "machines of a pool": SHORT + "cluster: {capacity: 'pool:night'}\n",
    "requirements as a list": SHORT + "container: {requirements: [numpy, 'scipy>1']}\n",
    "env of every kind": SHORT
    + "env: {A: 3.10, B: NO, C: true, D: 1:00:00, E: '', F: 0o7, G: 1e3}\n",
    "a provider that is not there": SHORT.replace("local", "elsewhere"),
    "settings of a provider that is not there": SHORT + "providers: {elsewhere: {queue: q}}\n",
    "a literal reference": HEAD + "command: [echo, '$${mounts.nothing}', '${HOME}']\n",
    "a range of one": HEAD + "command: [echo, '${sweep.n}']\nsweep: {n: 5..5}\n",
    "lists that go together, beside another": HEAD
    + "command: [echo, '${sweep.lr} ${sweep.batch} ${sweep.seed}']\n"
    + "sweep: {seed: 1..3, list: {lr: [0.1, 0.01], batch: [32, 64]}}\n",
    "a metric in the log": SHORT
    + "sweep: {n: 1..3}\nmetric: {name: loss, goal: min, pattern: 'loss=([0-9.]+)', "
    + "take: best, stop: {below: 0.1}}\n",
    "a metric in a file": SHORT
    + "outputs: [{name: o, path: /job/o}]\n"
    + "metric: {name: acc, goal: max, file: o/a/b.json, key: val.acc}\n",
    "sizes": SHORT
    + "scaling: [1, 2, 4]\nmetric: {name: speed, goal: max, reader: horovod, take: median}\n",
    "sizes with what they are of": SHORT
    + "scaling: {nodes: [1, 2], batch: 256, data: synthetic, software: torch 2.13}\n",
    "numbers of processes": SHORT
    + "launch: horovod\nscaling: {processes: [1, 2, 4], software: Horovod 0.28.1}\n",
    "what is drawn": HEAD
    + "command: [echo, '${sweep.lr}']\n"
    + "sweep: {random: {trials: 20, seed: 7, draw: {lr: {log_uniform: [1e-5, 0.1]}, "
    + "drop: {uniform: [0, .5]}, depth: {integer: [-1, 8]}, how: {choice: [sgd, adam]}}}}\n",
    "parameters with the names of parts": HEAD
    + "command: [echo, '${sweep.list} ${sweep.random}']\nsweep: {list: [a, b], random: 1..3}\n",
    "failures that end a job": SHORT
    + "retry: {attempts: 3, on: [{exit_codes: [42, 50..52], action: retry}, {action: stop}]}\n",
    "a sweep that some failures end": HEAD
    + "command: [echo, '${sweep.n}']\nsweep: {n: 1..9}\nmax_failed: 3\n",
    "memory that grows": SHORT.replace("local", "elsewhere")
    + "cluster: {memory: 16GiB}\n"
    + "retry: {attempts: 3, on: [{reason: oom, action: retry, memory: {grow: 2, most: 64GiB}}]}\n",
    "reasons that end a job": SHORT
    + "retry: {attempts: 2, on: [{reason: lost, action: stop}, {reason: timeout, action: retry}]}\n",
    "a range below zero": HEAD + "command: [echo, '${sweep.n}']\nsweep: {n: -2..2}\n",
}

BAD = {
    "no version": Wrong("name: job\nprovider: local\ncommand: [a]\n", "apiVersion"),
    "another version": Wrong(SHORT.replace("v1", "v2"), "apiVersion"),
    "a version as a number": Wrong(SHORT.replace("runspec/v1", "1"), "apiVersion"),
    "no name": Wrong(SHORT.replace("name: job\n", ""), "name"),
    "a name in capitals": Wrong(SHORT.replace("job", "Job"), "name"),
    "a long name": Wrong(SHORT.replace("job", "j" * 41), "name"),
    "a number as a name": Wrong(SHORT.replace("job", "123"), "name"),
    "a name that reads as true": Wrong(SHORT.replace("job", "true"), "name"),
    "an unknown key": Wrong(SHORT + "comand: [a]\n", "comand"),
    "an unknown key below": Wrong(SHORT + "cluster: {cpu: 4}\n", "cluster.cpu"),
    "nothing to run": Wrong(HEAD, ""),
    "two things to run": Wrong(SHORT + "run: echo\n", "run"),
    "an empty command": Wrong(HEAD + "command: []\n", "command"),
    "a command that is a string": Wrong(HEAD + "command: echo hi\n", "command"),
    "a command with nothing in it": Wrong(HEAD + "command: [echo, ~]\n", "command[1]"),
    "a command with a list in it": Wrong(HEAD + "command: [echo, [a]]\n", "command[1]"),
    "an empty script": Wrong(HEAD + "run: ''\n", "run"),
    "an image that is an option": Wrong(
        SHORT + "container: {image: --privileged}\n", "container.image"
    ),
    "an image of two lines": Wrong(
        SHORT + 'container: {image: "a\\nRUN touch /x"}\n', "container.image"
    ),
    "no nodes": Wrong(SHORT + "cluster: {nodes: 0}\n", "cluster.nodes"),
    "half a node": Wrong(SHORT + "cluster: {nodes: 1.5}\n", "cluster.nodes"),
    "nodes in quotes": Wrong(SHORT + "cluster: {nodes: '2'}\n", "cluster.nodes"),
    "nodes without an end": Wrong(SHORT + "cluster: {nodes: {min: 1}}\n", "cluster.nodes.max"),
    "more nodes than nodes": Wrong(
        SHORT + "cluster: {nodes: {min: 3, max: 2}}\n", "cluster.nodes", shape=False
    ),
    "a capacity nobody sells": Wrong(SHORT + "cluster: {capacity: spoot}\n", "cluster.capacity"),
    "a pool without a name": Wrong(SHORT + "cluster: {capacity: 'pool:'}\n", "cluster.capacity"),
    "a pool of no name": Wrong(SHORT + "cluster: {capacity: 'pool:A b'}\n", "cluster.capacity"),
    "capacity by another name": Wrong(SHORT + "cluster: {bought: spot}\n", "cluster.bought"),
    "decimal memory": Wrong(SHORT + "cluster: {memory: 16GB}\n", "cluster.memory"),
    "bare memory": Wrong(SHORT + "cluster: {memory: 16}\n", "cluster.memory"),
    "negative cores": Wrong(SHORT + "cluster: {cpus: -1}\n", "cluster.cpus"),
    "a cluster in a list": Wrong(SHORT + "cluster: [nodes]\n", "cluster"),
    "a kind without a number": Wrong(
        SHORT + "cluster: {gpu_type: V100}\n", "cluster.gpu_type", shape=False
    ),
    "an empty image": Wrong(SHORT + "container: {image: ''}\n", "container.image"),
    "an image that is a number": Wrong(SHORT + "container: {image: 3.10}\n", "container.image"),
    "a mount without a target": Wrong(
        SHORT + "mounts: [{name: a, source: ./a}]\n", "mounts[0].target"
    ),
    "a mount from nowhere": Wrong(
        SHORT + "mounts: [{name: a, source: 'gs://b', target: /a}]\n", "mounts[0]"
    ),
    "a mount that leaves the store": Wrong(
        SHORT + "mounts: [{name: a, source: 'store://a/../../b', target: /a}]\n", "mounts[0]", False
    ),
    "a relative target": Wrong(
        SHORT + "mounts: [{name: a, source: ./a, target: a}]\n", "mounts[0].target"
    ),
    "a target that climbs": Wrong(
        SHORT + "mounts: [{name: a, source: ./a, target: /a/../b}]\n", "mounts[0].target"
    ),
    "a mode that is none": Wrong(
        SHORT + "mounts: [{name: a, source: ./a, target: /a, mode: ru}]\n", "mounts[0].mode"
    ),
    "one name for two mounts": Wrong(
        SHORT
        + "mounts: [{name: a, source: ./a, target: /a}, {name: a, source: ./b, target: /b}]\n",
        "mounts[1].name",
        shape=False,
    ),
    "one variable for two mounts": Wrong(
        SHORT
        + "mounts: [{name: a-b, source: ./a, target: /a}, {name: a_b, source: ./b, target: /b}]\n",
        "mounts[1].name",
        shape=False,
    ),
    "folders in each other": Wrong(
        SHORT + "mounts: [{name: a, source: ./a, target: /a}]\noutputs: [{name: o, path: /a/o}]\n",
        "outputs[0].path",
        shape=False,
    ),
    "an output without a path": Wrong(SHORT + "outputs: [{name: o}]\n", "outputs[0].path"),
    "a time without a unit": Wrong(
        SHORT + "outputs: [{name: o, path: /o, sync: 60}]\n", "outputs[0].sync"
    ),
    "a variable that is none": Wrong(SHORT + "env: {3X: a}\n", "env.3X"),
    "a variable without a value": Wrong(SHORT + "env: {A: }\n", "env.A"),
    "a variable of ours": Wrong(
        SHORT + "env: {RUNSPEC_RANK: 1}\n", "env.RUNSPEC_RANK", shape=False
    ),
    "a reference in env": Wrong(SHORT + "env: {A: '${mounts.x}'}\n", "env.A", shape=False),
    "a secret that is plain as well": Wrong(
        SHORT + "env: {A: b}\nsecrets: {A: a}\n", "secrets.A", shape=False
    ),
    "a secret that is a number": Wrong(SHORT + "secrets: {A: 1}\n", "secrets.A"),
    "a launcher nobody has": Wrong(SHORT + "launch: mpiexec\n", "launch"),
    "an image that is named and built": Wrong(
        SHORT + "container: {image: 'a:1', build: {context: ./}}\n", "container.build", shape=False
    ),
    "a Containerfile outside of the context": Wrong(
        SHORT + "container: {build: {context: ./, file: ../Containerfile}}\n", "container.build"
    ),
    "a Containerfile with an absolute path": Wrong(
        SHORT + "container: {build: {context: ./, file: /Containerfile}}\n", "container.build"
    ),
    "a context that is an address": Wrong(
        SHORT + "container: {build: {context: 'https://a/b'}}\n", "container.build"
    ),
    "an entrypoint and a command": Wrong(
        SHORT + "container: {image: 'a:1', entrypoint: image}\n",
        "container.entrypoint",
        shape=False,
    ),
    "an entrypoint of no image": Wrong(
        HEAD + "container: {entrypoint: image}\n", "container.entrypoint", shape=False
    ),
    "arguments of no entrypoint": Wrong(
        SHORT + "container: {image: 'a:1', args: [a]}\n", "container.args", shape=False
    ),
    "a placeholder in arguments that names nothing": Wrong(
        HEAD + "container: {image: 'a:1', entrypoint: image, args: ['${mounts.x}']}\n",
        "container.args[0]",
        shape=False,
    ),
    "another entrypoint": Wrong(
        HEAD + "container: {image: 'a:1', entrypoint: serve}\n", "container.entrypoint"
    ),
    "ranks of srun that join and leave": Wrong(
        SHORT + "launch: srun\ncluster: {nodes: {min: 1, max: 2}}\n", "launch", shape=False
    ),
    "many processes and no launcher": Wrong(
        SHORT + "processes_per_node: 2\n", "processes_per_node", shape=False
    ),
    "a batch smaller than what shares it": Wrong(
        SHORT + "cluster: {nodes: {min: 1, max: 4}}\nglobal_batch: 3\n", "global_batch", shape=False
    ),
    "a mount that is not there": Wrong(
        HEAD + "command: ['${mounts.code}/x']\n", "command[0]", shape=False
    ),
    "a reference in a script to nothing": Wrong(
        HEAD + "run: echo ${sweep.lr}\n", "run", shape=False
    ),
    "a reference in a smoke test to nothing": Wrong(
        SHORT + "smoke: [x, '${mounts.code}']\n", "smoke[1]", shape=False
    ),
    "a smoke test of no program": Wrong(SHORT + "smoke: ['', x]\n", "smoke[0]", shape=False),
    "a smoke test of nothing": Wrong(SHORT + "smoke: []\n", "smoke"),
    "a name too long for a smoke test": Wrong(
        SHORT.replace("name: job", f"name: {'a' * 35}") + "smoke: [x]\n", "name", shape=False
    ),
    "a range that goes down": Wrong(SHORT + "sweep: {n: 5..1}\n", "sweep.n", shape=False),
    "a range that is a word": Wrong(SHORT + "sweep: {n: a..b}\n", "sweep.n"),
    "a sweep over nothing": Wrong(SHORT + "sweep: {n: []}\n", "sweep.n"),
    "a sweep too wide": Wrong(SHORT + "sweep: {a: 1..200, b: 1..200}\n", "sweep", shape=False),
    "a metric that nothing finds": Wrong(
        SHORT + "metric: {name: m, goal: max}\n", "metric", shape=False
    ),
    "a metric without a goal": Wrong(SHORT + "metric: {name: m, pattern: (.)}\n", "metric.goal"),
    "a pattern that is none": Wrong(
        SHORT + "metric: {name: m, goal: max, pattern: '('}\n", "metric.pattern", shape=False
    ),
    "a pattern without a group": Wrong(
        SHORT + "metric: {name: m, goal: max, pattern: 'x+'}\n", "metric.pattern", shape=False
    ),
    "a pattern that may take for ever": Wrong(
        SHORT + "metric: {name: m, goal: max, pattern: '((a+)+)b'}\n", "metric.pattern", shape=False
    ),
    "two ways to find a metric": Wrong(
        SHORT + "metric: {name: m, goal: max, pattern: (x), reader: mxnet}\n",
        "metric.reader",
        shape=False,
    ),
    "a file of no output": Wrong(
        SHORT + "metric: {name: m, goal: max, file: o/x.csv, column: a}\n",
        "metric.file",
        shape=False,
    ),
    "a stop the other way": Wrong(
        SHORT + "sweep: {n: 1..2}\nmetric: {name: m, goal: max, reader: mxnet, stop: {below: 1}}\n",
        "metric.stop.below",
        shape=False,
    ),
    "a stop of nothing": Wrong(
        SHORT + "metric: {name: m, goal: max, reader: mxnet, stop: {above: 1}}\n",
        "metric.stop",
        shape=False,
    ),
    "sizes of two kinds": Wrong(SHORT + "scaling: {nodes: [1], processes: [1]}\n", "scaling"),
    "sizes of no kind": Wrong(SHORT + "scaling: {batch: 1}\n", "scaling"),
    "numbers of processes without a launcher": Wrong(
        SHORT + "scaling: {processes: [1, 2]}\n", "scaling", shape=False
    ),
    "numbers of processes twice": Wrong(
        SHORT + "launch: mpi\nscaling: {processes: [1, 2]}\nprocesses_per_node: 2\n",
        "processes_per_node",
        shape=False,
    ),
    "numbers of processes on two nodes": Wrong(
        SHORT + "launch: mpi\nscaling: {processes: [1, 2]}\ncluster: {nodes: 2}\n",
        "cluster.nodes",
        shape=False,
    ),
    "more processes than samples": Wrong(
        SHORT + "launch: mpi\nscaling: {processes: [1, 8]}\nglobal_batch: 4\n",
        "global_batch",
        shape=False,
    ),
    "sizes of nothing": Wrong(SHORT + "scaling: []\n", "scaling"),
    "a size of none": Wrong(SHORT + "scaling: [1, 0]\n", "scaling[1]"),
    "a size twice": Wrong(SHORT + "scaling: [1, 2, 1]\n", "scaling", shape=False),
    "sizes and a number of nodes": Wrong(
        SHORT + "scaling: [1, 2]\ncluster: {nodes: 2}\n", "cluster.nodes", shape=False
    ),
    "sizes and a sweep": Wrong(
        SHORT + "scaling: [1, 2]\nsweep: {n: 1..2}\n", "scaling", shape=False
    ),
    "lists that are not equally long": Wrong(
        SHORT + "sweep: {list: {a: [1, 2], b: 1..3}}\n", "sweep.list.b", shape=False
    ),
    "lists that are none": Wrong(SHORT + "sweep: {list: {}}\n", "sweep.list"),
    "a mapping for a parameter": Wrong(SHORT + "sweep: {lr: {uniform: [0, 1]}}\n", "sweep.lr"),
    "a parameter that is swept twice": Wrong(
        SHORT + "sweep: {a: [1], list: {a: [1]}}\n", "sweep.list.a", shape=False
    ),
    "draws without a number of them": Wrong(
        SHORT + "sweep: {random: {draw: {a: {uniform: [0, 1]}}}}\n", "sweep.random.trials"
    ),
    "draws of nothing": Wrong(
        SHORT + "sweep: {random: {trials: 2, draw: {}}}\n", "sweep.random.draw"
    ),
    "a distribution that is unknown": Wrong(
        SHORT + "sweep: {random: {trials: 2, draw: {a: {normal: [0, 1]}}}}\n",
        "sweep.random.draw.a.normal",
    ),
    "two distributions": Wrong(
        SHORT + "sweep: {random: {trials: 2, draw: {a: {uniform: [0, 1], integer: [0, 1]}}}}\n",
        "sweep.random.draw.a",
    ),
    "bounds that go down": Wrong(
        SHORT + "sweep: {random: {trials: 2, draw: {a: {uniform: [2, 1]}}}}\n",
        "sweep.random.draw.a.uniform",
        shape=False,
    ),
    "one bound": Wrong(
        SHORT + "sweep: {random: {trials: 2, draw: {a: {uniform: [2]}}}}\n",
        "sweep.random.draw.a.uniform",
    ),
    "the logarithm of nothing": Wrong(
        SHORT + "sweep: {random: {trials: 2, draw: {a: {log_uniform: [0, 1]}}}}\n",
        "sweep.random.draw.a.log_uniform",
        shape=False,
    ),
    "a bound that is no number": Wrong(
        SHORT + "sweep: {random: {trials: 2, draw: {a: {uniform: [a, 1]}}}}\n",
        "sweep.random.draw.a.uniform[0]",
    ),
    "draws too many": Wrong(
        SHORT + "sweep: {random: {trials: 100001, draw: {a: {uniform: [0, 1]}}}}\n",
        "sweep.random.trials",
    ),
    "draws too many with others": Wrong(
        SHORT + "sweep: {n: 1..2, random: {trials: 50001, draw: {a: {uniform: [0, 1]}}}}\n",
        "sweep",
        shape=False,
    ),
    **{
        f"a whole number of {digits} digits to draw": Wrong(
            SHORT
            + f"sweep: {{random: {{trials: 2, draw: {{a: {{integer: [1, {'9' * digits}]}}}}}}}}\n",
            "sweep.random.draw.a.integer[1]",
            shape=False,
        )
        for digits in (20, 400, 5000)
    },
    "a number of nodes of 400 digits": Wrong(
        SHORT + f"cluster: {{nodes: {'9' * 400}}}\n", "cluster.nodes", shape=False
    ),
    "a bound without a sweep": Wrong(SHORT + "max_parallel: 2\n", "max_parallel", shape=False),
    "a bound of failed tasks without a sweep": Wrong(
        SHORT + "max_failed: 2\n", "max_failed", shape=False
    ),
    "no failed tasks": Wrong(SHORT + "sweep: {n: 1..3}\nmax_failed: 0\n", "max_failed"),
    "no tries": Wrong(SHORT + "retry: {attempts: 0}\n", "retry.attempts"),
    "an unknown reason": Wrong(
        SHORT + "retry: {on: [{reason: memory, action: stop}]}\n", "retry.on[0].reason"
    ),
    "a reason and exit codes": Wrong(
        SHORT + "retry: {on: [{reason: lost, exit_codes: [1], action: stop}]}\n",
        "retry.on[0]",
        shape=False,
    ),
    "a reason in an elastic job": Wrong(
        SHORT.replace("local", "elsewhere")
        + "cluster: {nodes: {min: 1, max: 2}}\n"
        + "retry: {on: [{reason: lost, action: stop}]}\n",
        "retry.on[0].reason",
        shape=False,
    ),
    "memory that grows from nothing": Wrong(
        SHORT.replace("local", "elsewhere")
        + "retry: {attempts: 3, on: [{reason: oom, action: retry, memory: {grow: 2, most: 64GiB}}]}\n",
        "retry.on[0].memory",
        shape=False,
    ),
    "memory that cannot grow": Wrong(
        SHORT.replace("local", "elsewhere")
        + "cluster: {memory: 64GiB}\n"
        + "retry: {attempts: 3, on: [{reason: oom, action: retry, memory: {grow: 2, most: 64GiB}}]}\n",
        "retry.on[0].memory.most",
        shape=False,
    ),
    "memory that grows after a timeout": Wrong(
        SHORT.replace("local", "elsewhere")
        + "cluster: {memory: 1GiB}\n"
        + "retry: {attempts: 3, on: [{reason: timeout, action: retry, memory: {grow: 2, most: 64GiB}}]}\n",
        "retry.on[0]",
        shape=False,
    ),
    "memory that does not grow": Wrong(
        SHORT.replace("local", "elsewhere")
        + "cluster: {memory: 1GiB}\n"
        + "retry: {attempts: 3, on: [{reason: oom, action: retry, memory: {grow: 1, most: 64GiB}}]}\n",
        "retry.on[0].memory.grow",
    ),
    "no exit codes": Wrong(
        SHORT + "retry: {on: [{exit_codes: [], action: stop}]}\n", "retry.on[0].exit_codes"
    ),
    "an exit code of no failure": Wrong(
        SHORT + "retry: {on: [{exit_codes: [0], action: stop}]}\n", "retry.on[0].exit_codes[0]"
    ),
    "exit codes as others write them": Wrong(
        SHORT + "retry: {on: [{exit_codes: [1-9], action: stop}]}\n", "retry.on[0].exit_codes[0]"
    ),
    "exit codes in reverse": Wrong(
        SHORT + "retry: {on: [{exit_codes: [9..1], action: stop}]}\n",
        "retry.on[0].exit_codes[0]",
        shape=False,
    ),
    "a rule after one that matches all": Wrong(
        SHORT + "retry: {on: [{action: stop}, {exit_codes: [1], action: stop}]}\n",
        "retry.on[0]",
        shape=False,
    ),
    "a rule that retries what has one try": Wrong(
        SHORT + "retry: {on: [{exit_codes: [1], action: retry}]}\n",
        "retry.on[0].action",
        shape=False,
    ),
    "too many tries": Wrong(SHORT + "retry: {attempts: 11}\n", "retry.attempts"),
    "an unknown setting of a provider": Wrong(
        SHORT + "providers: {local: {engin: process}}\n", "providers.local.engin"
    ),
    "a wrong setting of a provider": Wrong(
        SHORT + "providers: {local: {engine: lxc}}\n", "providers.local.engine"
    ),
    "a setting that belongs to a profile": Wrong(
        SHORT + "providers: {local: {root: /here}}\n", "providers.local.root"
    ),
    "settings that are none": Wrong(SHORT + "providers: {local: 3}\n", "providers.local"),
}
