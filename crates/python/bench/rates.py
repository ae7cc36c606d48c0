"""Rates of alternating rounds, and the memory of a process."""

import json
import statistics
import time


def alternating(rounds, **works):
    """Runs each work once to warm up, then in alternating rounds; returns the median seconds of each."""
    for work in works.values():
        work()
    seconds = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            begun = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - begun)
    return {name: statistics.median(of_name) for name, of_name in seconds.items()}


class Report:
    """Measurements: printed, and written as a line of JSON each."""

    def __init__(self, path):
        self.file = open(path, "w") if path else None

    def add(self, name, **figures):
        rounded = {key: round(value, 2) if isinstance(value, float) else value for key, value in figures.items()}
        line = json.dumps({"name": name} | rounded)
        print(line, flush=True)
        if self.file:
            self.file.write(line + "\n")
            self.file.flush()


def private_mib():
    """Memory of this process that no other process shares, MiB."""
    with open("/proc/self/smaps_rollup") as rollup:
        lines = [line.split() for line in rollup]
    return sum(int(line[1]) for line in lines if line[0] in ("Private_Clean:", "Private_Dirty:")) / 1024
