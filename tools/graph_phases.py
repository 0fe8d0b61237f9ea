"""The phases of `pellucid graph`, found in what an undisturbed run asks the system for; and kills and full disks exactly there.

strace lists what a run does with its edges, its work directory and its results. A phase is one call of that list: asked for the same, a later
run makes the same calls in the same order, so strace can kill it, or stop it, at that call.
"""

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import time
from collections import Counter, namedtuple

from served import program

CALLS = "openat,read,pread64,write,pwrite64,fsync,rename,unlink"
ITERATIONS = 3
RANKS = ["pagerank", "--iterations", ITERATIONS, "--tolerance", 0]
# Memory for graphs of 100,000 vertices that makes each use its work directory: the least, and more where a vertex takes more.
PROGRAMS = {
    "pagerank": [*RANKS, "--memory", "18MiB"],
    "pagerank in chunks": [*RANKS, "--memory", "17MiB"],
    "pagerank mapped": [*RANKS, "--memory", "18MiB", "--storage", "mmap"],
    "components": ["components", "--memory", "18MiB"],
    "bfs": ["bfs", "--from", 5, "--memory", "19MiB"],
    "sssp": ["sssp", "--from", 5, "--memory", "19MiB"],
    "triangles": ["triangles", "--memory", "18MiB"],
}

# One call: the `nth` of its kind from 1 on for the file at `path`, which strace matches; a renamed file has its new `name`.
Call = namedtuple("Call", "call name path nth creates")
# Where a run is disturbed, and what it finds afterwards: the edges ordered (True), or nothing (False); `None`: either.
Phase = namedtuple("Phase", "name at prepared")


class Run:
    """One program with its edges, its work directory and its results."""

    def __init__(self, binary, name, edges, folder):
        self.name, self.edges, self.folder = name, edges, folder
        self.work, self.out = os.path.join(folder, "work"), os.path.join(folder, "out.csv")
        self.words = [str(binary), "graph", *map(str, PROGRAMS[name]), edges, "--work", self.work, "--json"]
        self.words += [] if name == "triangles" else ["--out", self.out]
        self.log = edges + ".strace"

    def traced(self, *how):
        return [program("strace"), "-f", "-y", "-o", self.log, *how, *self.words]

    def calm(self):
        """What an undisturbed run does: its calls, and its results."""
        subprocess.run(self.traced("-e", f"trace={CALLS}"), stdout=subprocess.DEVNULL, check=True, timeout=600)
        ours, nth, calls = {self.edges: "edges", self.out + ".part": "part", self.out: "out"}, Counter(), []
        with open(self.log, errors="replace") as log:
            for line in log:
                if not (match := re.match(r"\d+ +(\w+)\((.*)", line)):
                    continue
                call, rest = match.groups()
                paths = [a or b for a, b in re.findall(r'"(/[^"]*)"|\d<(/[^>]*)>', rest.split(" = ")[0])] or [""]
                path, last = paths[0], paths[-1] if call == "rename" else paths[0]
                name = ours.get(last) or (os.path.basename(last) if os.path.dirname(last) == self.work else None)
                if name:
                    nth[call, path] += 1
                    calls.append(Call(call, name, path, nth[call, path], "O_TRUNC" in rest))
        return calls, self.results()

    def results(self):
        """The rows as bytes, which are gone then."""
        if self.name == "triangles":
            return None
        with open(self.out, "rb") as file:
            rows = file.read()
        os.remove(self.out)
        return rows

    def at(self, call, what):
        """The command that meets signal `what` at this call."""
        return self.traced("-e", f"trace={call.call}", "-P", call.path, "-e", f"inject={call.call}:signal={what}:when={call.nth}")

    def again(self):
        done = subprocess.run(self.words, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"asked again: exit {done.returncode}: {done.stderr}"
        return json.loads(done.stdout)


def middle(calls):
    return calls[len(calls) // 2]


def phases(run, calls):
    """Every phase of the engine, in order."""
    at = {call: index for index, call in enumerate(calls)}

    def some(call, name, after=None, before=None):
        begin, end = at[after] if after else -1, at[before] if before else len(calls)
        return [c for c in calls if c.call == call and re.fullmatch(name, c.name) and begin < at[c] < end]

    plan, = some("rename", "plan.seg")
    reads = some("pread64", "run-.*")
    yield Phase("reading edges", middle(some("read", "edges")), False)
    yield Phase("writing runs", middle(some("pwrite64", "run-.*", before=reads[0])), False)
    if run.name == "triangles":
        yield Phase("renumbering", middle(some("pwrite64", "run-.*", after=reads[0])), False)
    if run.name.startswith("pagerank"):
        yield Phase("writing degrees", some("pwrite64", "degrees.seg")[0], False)
    yield Phase("ordering edges", middle(reads), False)
    yield Phase("writing windows", middle(some("pwrite64", "others-.*")), False)
    yield Phase("writing the plan", plan, None)
    yield Phase("removing runs", middle(some("unlink", "run-.*", after=plan)), True)
    ends = some("rename", "state.seg")
    for number, (begin, end) in enumerate(zip([plan, *ends], ends), 1):
        yield Phase(f"iteration {number}", middle(some("pwrite64", "values-.*", begin, end)), True)
        yield Phase(f"the end of iteration {number}", end, True)
    removals = some("unlink", "values-.*", ends[-1]) if ends else []
    if removals:
        yield Phase("removing old values", removals[0], True)
    if run.name == "pagerank mapped":
        yield Phase("mapping edges", some("openat", "others-.*", after=plan)[0], True)
    elif not ends:
        scans = some("pread64", "others-.*", after=plan)
        yield Phase("computing", middle(scans), True)
        yield Phase("the last window", scans[-1], True)
    if run.name != "triangles":
        writes = some("write", "part")
        yield Phase("writing results", middle(writes), True)
        yield Phase("writing the last results", writes[-1], True)
        yield Phase("syncing results", some("fsync", "part")[0], True)
        yield Phase("naming results", some("rename", "out")[0], True)
    windows = some("unlink", "(others|offsets|degrees|state).*", after=plan)
    yield Phase("removing the plan", some("unlink", "plan.seg")[0], None)
    yield Phase("removing windows", middle(windows), False)


def kill_each(binary, name, edges, folder):
    """Killed in each phase and asked again, a run gives what an undisturbed one gives, and goes on where it was."""
    run = Run(binary, name, edges, folder)
    calls, rows = run.calm()
    count, reads, names = run.again()["count"], [], []
    if rows is not None:
        assert run.results() == rows, f"{name}: two undisturbed runs differ"
    for phase in phases(run, calls):
        where = f"{name}, killed at {phase.name}"
        done = subprocess.run(run.at(phase.at, "KILL"), capture_output=True, text=True, timeout=600)
        assert done.returncode == -signal.SIGKILL, f"{where}: exit {done.returncode}: {done.stderr}"
        assert os.path.exists(run.work), f"{where}: there is no work directory"
        if os.path.exists(run.out):
            assert run.results() == rows, f"{where}: a file of results that is not complete has its name"
        told = run.again()
        assert phase.prepared in (None, told["reopened"]), f"{where}: prepared before: {told['reopened']}"
        assert told["count"] == count and (rows is None or run.results() == rows), f"{where}: other results"
        left = [path for path in (run.work, run.out + ".part") if os.path.exists(path)]
        assert not left, f"{where}: {left} is left behind"
        names.append(phase.name)
        if phase.name.startswith("iteration"):
            reads.append(told["work_read_bytes"])
    # What is complete is not done again.
    assert all(later < before for before, later in zip(reads, reads[1:])), f"{name}: {reads} bytes are read again after each iteration"
    return names


# Phases that write, and the call after which the disk is full: the next write of that phase fails.
def writing(run, calls):
    created = [call for call in calls if call.creates]
    for phase in phases(run, calls):
        if phase.at.call == "write" or phase.name in ("writing runs", "renumbering", "writing windows"):
            # The call itself is done before the run stops.
            at = calls[:calls.index(phase.at)]
            yield phase._replace(at=[call for call in at if call[:2] == phase.at[:2] or call.call == "pwrite64"][-1])
        elif phase.name in ("writing degrees", "writing the plan") or "iteration" in phase.name:
            name = "new.seg" if phase.at.call == "rename" else phase.at.name
            before = [call for call in created if call.name == name and calls.index(call) < calls.index(phase.at)]
            yield phase._replace(at=before[-1], prepared=bool(phase.prepared))


@contextlib.contextmanager
def disk(folder, mebibytes):
    """A small file system, or `None` where we may not mount one."""
    path = os.path.join(folder, "disk")
    os.mkdir(path)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "none", path], capture_output=True).returncode == 0
    try:
        yield path, mounted
    finally:
        if mounted:
            subprocess.run(["umount", path], check=True)


def fill(path):
    """Writes until nothing more fits; the file that did it."""
    filler = os.path.join(path, "filler")
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in 1 << 20, 1 << 12:
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
    return filler


def fill_each(binary, name, edges, folder):
    """A disk that is full from a phase on ends the run with a sentence; with room again, it goes on to the same results."""
    with disk(folder, 64) as (path, mounted):
        run = Run(binary, name, edges, path)
        calls, rows = run.calm()
        found = list(writing(run, calls))
        for phase in found:
            full(run, phase, rows, mounted)
    return f"{name}: {len(found)} phases, {'a full file system' if mounted else 'a limit of file sizes'}"


def full(run, phase, rows, mounted):
    where = f"{run.name}, full at {phase.name}"
    os.remove(run.log)
    # Where a limit of file sizes stands for a full disk, it has to be an error and no signal.
    child = subprocess.Popen(run.at(phase.at, "STOP"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                             preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN))
    traced, filler = stopped(run, child, where), None
    try:
        if mounted:
            filler = fill(run.folder)
        else:
            resource.prlimit(traced, resource.RLIMIT_FSIZE, (0, 0))
    finally:
        os.kill(traced, signal.SIGCONT)
        _, said = child.communicate(timeout=600)
    assert child.returncode == 1 and said.count("\n") == 1, f"{where}: exit {child.returncode}: {said}"
    assert re.search("no space is left|No space left|File too large", said), f"{where}: {said}"
    left = [path for path in (run.out, run.out + ".part") if os.path.exists(path)]
    assert not left, f"{where}: {left} is left behind"
    assert os.path.exists(run.work) == phase.prepared, f"{where}: the work directory: {os.path.exists(run.work)}"
    if filler:
        os.remove(filler)
    told = run.again()
    assert told["reopened"] == phase.prepared, f"{where}: prepared before: {told['reopened']}"
    assert rows is None or run.results() == rows, f"{where}: other results"


def stopped(run, child, where):
    """Waits until the run has stopped; its process."""
    end = time.monotonic() + 600
    while True:
        with contextlib.suppress(FileNotFoundError), open(run.log, errors="replace") as log:
            if "stopped by SIGSTOP" in log.read():
                break
        assert child.poll() is None and time.monotonic() < end, f"{where}: it did not stop there"
        time.sleep(0.01)
    with open(f"/proc/{child.pid}/task/{child.pid}/children") as children:
        return int(children.read().split()[0])
