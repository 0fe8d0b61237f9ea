"""Policies that are written in Python."""
import json
import os
import re
import subprocess
import traceback
from pathlib import Path

import pytest

import pellucid as pl

SMALL = {"media.blocks": 128, "ftl.over_provisioning": 0.2}


class Fifo(pl.VictimPolicy):
    stateless = True

    def choose(self, candidates, now):
        assert all(block.closed_at <= now and block.valid <= block.units for block in candidates)
        return min(candidates, key=lambda block: block.closed_at)


class Turns(pl.VictimPolicy):
    """Keeps a state that decides: the oldest and the emptiest in turns, three times each."""

    def __init__(self):
        self.asked = 0

    def choose(self, candidates, now):
        self.asked += 1
        return min(candidates, key=lambda block: block.valid if self.asked % 6 < 3 else block.closed_at).block


class Raises(pl.VictimPolicy):
    def __init__(self, after=0):
        self.after = after

    def choose(self, candidates, now):
        self.after -= 1
        if self.after < 0:
            raise LookupError("no block of mine")
        return min(candidates, key=lambda block: block.valid)


class Wrong(pl.VictimPolicy):
    def __init__(self, answer=1_000_000):
        self.answer = answer

    def choose(self, candidates, now):
        return self.answer


class Uncopied(pl.VictimPolicy):
    def choose(self, candidates, now):
        return candidates[0]

    def __deepcopy__(self, memo):
        raise TypeError("I stay alone")


class LastDie(pl.PlacementPolicy):
    stateless = True

    def choose(self, dies, page, now):
        return dies[-1]


class WayFirst(pl.PlacementPolicy):
    """The order of dies of `way-first`."""

    def __init__(self):
        self.next = 0

    def choose(self, dies, page, now):
        chosen = next((die for die in dies if die.die >= self.next), dies[0])
        self.next = chosen.die + 1
        return chosen.die


class FewestCached(pl.EvictionPolicy):
    stateless = True

    def choose(self, candidates, now):
        assert all(block.valid <= block.cached <= block.units for block in candidates)
        return min(candidates, key=lambda block: (block.cached, block.closed_at))


class MostCached(pl.EvictionPolicy):
    stateless = True

    def choose(self, candidates, now):
        return max(candidates, key=lambda block: block.cached)


def drive(preset="netbook-ssd", **tables):
    return pl.Drive(preset, overrides=SMALL, **tables)


def measured(result):
    """A report without what says which policy it was of."""
    report = json.loads(result.json(cost=False))
    # A block manager with an index for greedy takes more memory than one without.
    report["drive"] = {key: value for key, value in report["drive"].items() if key not in ("summary", "memory_bytes", "memory")}
    report.get("host_layer", {}).pop("memory_bytes", None)
    for key in ("overrides", "workload", "provenance"):
        report.pop(key, None)
    return report


WRITES = pl.Job(rw="randwrite", bs="4k", iodepth=4, number_ios=20_000)


def test_a_victim_policy_in_python_is_the_built_in_one_of_the_same_rule():
    ours, theirs = (drive(ftl={"victim": victim}).run(WRITES, precondition="fill") for victim in (Fifo(), "fifo"))
    assert ours.report.gc.victims > 100
    assert measured(ours) == measured(theirs)
    greedy = drive().run(WRITES, precondition="fill")
    assert measured(greedy) != measured(theirs)


def test_a_policy_of_a_host_ftl_chooses_among_its_lines():
    base = {"overrides": {"media.channels": 2, "media.ways": 2, "media.blocks": 24, "media.pages": 16}}
    layered = {"toml": '[drive]\npreset = "open-channel"\n[host]\nlayers = ["host-ftl"]\n'}
    job = pl.Job(rw="randwrite", bs="64k", iodepth=8, number_ios=6000)
    ours, theirs = (pl.Drive(**layered, **base, host={"ftl": {"victim": victim, "over_provisioning": 0.3}}).run(job) for victim in (Fifo(), "fifo"))
    assert measured(ours) == measured(theirs)
    assert '"python:Fifo@' in ours.report.overrides["host.ftl.victim"]


def test_a_placement_decides_where_new_data_go():
    job = pl.Job(rw="randwrite", bs="16k", iodepth=1, number_ios=2000)
    shape = {"overrides": {"media.channels": 2, "media.ways": 2, "media.blocks": 32}}
    last = pl.Drive("cosmos-plus", **shape, ftl={"placement": LastDie()}).run(job)
    busy = last.dies.to_pandas().busy_share
    assert busy[3] > 0 and list(busy[:3]) == [0, 0, 0]
    ours, theirs = (pl.Drive("cosmos-plus", **shape, ftl={"placement": one}).run(WRITES, precondition="fill") for one in (WayFirst(), "way-first"))
    assert measured(ours) == measured(theirs)


SSC = Path(__file__).resolve().parents[3] / "examples/cache/ssc.toml"


def cache(**tables):
    return pl.Drive(SSC, overrides={"media.blocks": 24, "ftl.over_provisioning": 0.4}, **tables)


def test_an_eviction_decides_what_a_cache_drops():
    job = pl.Job(rw="randwrite", bs="32k", iodepth=4, size="1g", number_ios=8_000)
    built_in, ours, most = cache().run(job), cache(cache={"eviction": FewestCached()}).run(job), cache(cache={"eviction": MostCached()}).run(job)
    # The choice that has to wait for space is kept here, and made anew there, so they differ a little.
    assert abs(ours.report.gc.victim_valid_share / built_in.report.gc.victim_valid_share - 1) < 0.05
    assert most.report.gc.victim_valid_share > 1.1 * ours.report.gc.victim_valid_share
    assert re.search(r'eviction = "python:FewestCached@[0-9a-f]{16}"', ours.report.overrides["drive.namespace"])


def test_runs_with_a_policy_repeat_and_its_state_forks_with_the_drive():
    policy = Turns()
    one = drive(ftl={"victim": policy})
    first, second = one.run(WRITES, precondition="fill"), one.run(WRITES, precondition="fill")
    assert first.json(cost=False) == second.json(cost=False)
    assert policy.asked == 0, "the object that was given is a prototype"

    aged = one.age(overwrite=0.5)
    other = aged.fork()
    assert measured(aged.run(WRITES)) == measured(other.run(WRITES))
    # A fork from the middle goes on from the state of the middle.
    assert measured(aged.fork().run(WRITES)) == measured(aged.run(WRITES))


def test_a_report_names_the_policy_and_rerun_refuses_it(tmp_path):
    result = drive(ftl={"victim": Fifo()}).run(WRITES)
    name = result.report.overrides["drive.ftl.victim"]
    assert re.fullmatch(r'"python:Fifo@[0-9a-f]{16}"', name)
    assert name.strip('"') in result.report.drive.summary
    assert result.command_line == ""
    report = tmp_path / "report.json"
    report.write_text(result.json())
    done = subprocess.run([os.environ["PELLUCID"], "rerun", report], capture_output=True, text=True)
    assert done.returncode == 2
    assert f"drive.ftl.victim = {name} is a policy written in Python, which the command does not have" in done.stderr
    # A description that has the name is refused too.
    with pytest.raises(pl.Error, match="a policy written in Python works only in the program that has it"):
        drive(ftl={"victim": name.strip('"')})
    assert f"victim = {name}" in drive(ftl={"victim": Fifo()}).show()


def test_an_exception_of_a_policy_is_that_exception_with_its_traceback():
    with pytest.raises(LookupError, match="no block of mine") as raised:
        drive(ftl={"victim": Raises(after=40)}).run(WRITES, precondition="fill")
    frames = [(frame.name, frame.line) for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert frames[-1] == ("choose", 'raise LookupError("no block of mine")')


def test_a_drive_whose_policy_has_failed_goes_no_further_but_its_fork_does():
    aged = drive(ftl={"victim": Raises(after=1_000)}).age(overwrite=0)
    fork = aged.fork()
    with pytest.raises(LookupError):
        aged.run(pl.Job(rw="randwrite", bs="4k", number_ios=100_000))
    with pytest.raises(pl.Error, match="this policy has failed"):
        aged.run(WRITES)
    assert fork.run(WRITES).report.requests == 20_000


@pytest.mark.parametrize("policy, raised, sentence", [
    (Wrong(), pl.Error, r"drive.ftl.victim = python:Wrong@[0-9a-f]{16}, which chose 1000000: not allowed; allowed: \d+, "),
    (Wrong(-1), pl.Error, "which chose -1: not allowed"),
    (Wrong("a"), pl.Error, "which chose 'a': not allowed"),
    (Wrong(None), pl.Error, "which chose None: not allowed"),
    (Uncopied(), TypeError, "I stay alone"),
])
def test_what_a_policy_may_not_do_is_refused(policy, raised, sentence):
    with pytest.raises(raised, match=sentence):
        drive(ftl={"victim": policy}).run(WRITES, precondition="fill")


@pytest.mark.parametrize("tables, sentence", [
    ({"ftl": {"victim": LastDie()}}, "ftl.victim = 'LastDie': not allowed; allowed: a VictimPolicy"),
    ({"ftl": {"victim": Fifo}}, "ftl.victim = 'Fifo': not allowed; allowed: an object of the class"),
    ({"ftl": {"map": Fifo()}}, "ftl.map = 'Fifo': not allowed; allowed: drive.ftl.victim, host.ftl.victim for this policy"),
    ({"cache": {"eviction": FewestCached()}}, "cache.eviction = python:FewestCached@.*allowed: with a drive that has a cache namespace"),
])
def test_a_policy_in_the_wrong_place_is_refused(tables, sentence):
    with pytest.raises(pl.Error, match=sentence):
        drive(**tables)


def test_a_policy_that_nothing_asks_is_refused():
    job = pl.Job(rw="randwrite", bs="4k", number_ios=10)
    with pytest.raises(pl.Error, match="ftl.victim"):
        pl.Drive("netbook-ssd", overrides={**SMALL, "ftl.map": "fast", "ftl.over_provisioning": 0.3}, ftl={"victim": Fifo()}).run(job)


def test_a_comparison_names_policies():
    compared = pl.compare([drive(), drive(ftl={"victim": Fifo()})], WRITES, precondition="fill")
    assert [name.split("@")[0] for name in compared] == ["netbook-ssd", "netbook-ssd ftl.victim=python:Fifo"]


def named(source):
    """The name of a policy whose class has this source, without a module of its own, as a cell of a notebook."""
    import linecache

    file = f"<cell {hash(source)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space = {"pl": pl, "__name__": "__main__"}
    exec(compile(source, file, "exec"), space)
    return space["Cell"]().name()


def test_the_name_of_a_policy_is_a_hash_of_its_source():
    text = "class Cell(pl.VictimPolicy):\n    share = {}\n    def choose(self, candidates, now):\n        return candidates[{}]\n"
    first = named(text.format(1, 0))
    assert first.startswith("python:Cell@") and first == named(text.format(1, 0))
    assert len({first, named(text.format(2, 0)), named(text.format(1, -1))}) == 3
    with pytest.raises(pl.Error, match="a class in a file or a notebook"):
        space = {"pl": pl}
        exec("class Typed(pl.VictimPolicy):\n    def choose(self, candidates, now):\n        return 0\n", space)
        space["Typed"]().name()
