#!/usr/bin/env python3
"""Real clients over NBD against a served drive: fio, qemu-img, qemu-io, nbdinfo, nbdcopy, each with its data verified.

    tools/real_clients.py [--pellucid target/debug/pellucid] [--only NAME]

One line for each test and a plain count; exit status 1 if any has failed.
"""
import contextlib
import json
import os
import random
import subprocess
import tempfile
import time
from pathlib import Path

from nbd_client import FUA, READ, WRITE, Client
from served import HANG_SECONDS, ROOT, SYSTEM_PATH, free_port, main, program, readme_commands, run, served, wait_for

PRESET = "cosmos-plus"
SETS = ["media.store=ram", "media.blocks=32", "ftl.durability=journal"]
SMALL = ROOT / "bench/serve-ram.toml"
MIB = 1 << 20


def nbdinfo(server, *options, export="") -> dict:
    # Not what file(1) makes of the content: without that program nbdinfo prints memory that it never wrote.
    return json.loads(run("nbdinfo", "--json", "--no-content", *options, server.uri(export)))


def qemu_uri(server, export=PRESET) -> str:
    return f"nbd:unix:{server.socket}:exportname={export}"


def qemu_io(uri, *commands) -> str:
    """Runs commands in one qemu-io; a pattern that differs fails it."""
    words = [word for command in commands for word in ("-c", command)]
    output = run("qemu-io", "-f", "raw", *words, uri)
    assert "Pattern verification failed" not in output and "error" not in output.lower(), output
    return output


def information(pellucid):
    """What an export says of itself arrives at libnbd and QEMU."""
    with served(sets=SETS, pellucid=pellucid) as server:
        info = nbdinfo(server)["exports"][0]
        for able in ("can_fua", "can_multi_conn", "can_trim", "can_zero", "can_flush", "can_df", "can_fast_zero"):
            assert info[able], (able, info)
        assert not info["is_read_only"] and info["contexts"] == ["base:allocation"], info
        assert info["block_size_minimum"] <= info["block_size_preferred"] <= info["block_size_maximum"], info
        image = json.loads(run("qemu-img", "info", "--output=json", qemu_uri(server)))
        assert image["virtual-size"] == info["export-size"], image


def export_list(pellucid):
    """Several drives: nbdinfo lists them all, each with its size; data of one do not show in the other."""
    drives = [PRESET, SMALL]
    with served(drives, sets=["media.store=ram"], time_mode="instant", pellucid=pellucid) as server:
        exports = {e["export-name"]: e for e in nbdinfo(server, "--list")["exports"]}
        assert set(exports) == {PRESET, SMALL.stem}, exports
        assert exports[PRESET]["export-size"] != exports[SMALL.stem]["export-size"], exports
        qemu_io(qemu_uri(server, SMALL.stem), "write -P 7 0 64k")
        qemu_io(qemu_uri(server, PRESET), "read -P 0 0 64k")


def block_map(pellucid):
    """Block status as a map: holes and data where they were written and trimmed, adding up to the export."""
    with served([SMALL], time_mode="instant", pellucid=pellucid) as server:
        qemu = qemu_uri(server, SMALL.stem)
        qemu_io(qemu, "write -P 1 1M 256k", "write -P 2 4M 64k", "discard 1088k 64k", "write -z -u 1216k 64k", "flush")
        extents = nbdinfo(server, "--map")
        kib = [(e["offset"] >> 10, e["length"] >> 10, e["type"]) for e in extents]
        hole = 3  # hole and zero
        size = nbdinfo(server)["exports"][0]["export-size"] >> 10
        expected = [(0, 1024, hole), (1024, 64, 0), (1088, 64, hole), (1152, 64, 0), (1216, 2880, hole),
                    (4096, 64, 0), (4160, size - 4160, hole)]
        assert kib == expected, f"{kib}, not {expected}"
        totals = nbdinfo(server, "--map", "--totals")
        assert sum(t["size"] for t in totals) == size << 10, totals


def size_after_restart(pellucid):
    """The protocol announces a size when an export is chosen: a drive that came back larger says so to new connections."""
    with tempfile.TemporaryDirectory() as directory:
        sizes = []
        for blocks in (32, 64):
            sets = ["media.store=ram", f"media.blocks={blocks}"]
            with served(sets=sets, pellucid=pellucid, directory=directory) as server:
                sizes.append(nbdinfo(server)["exports"][0]["export-size"])
                last = sizes[-1] - 65536
                qemu_io(qemu_uri(server), f"write -P 9 {last} 64k", f"read -P 9 {last} 64k")
        assert sizes[1] > sizes[0], sizes


def several_connections(pellucid):
    """nbdcopy over four connections at once (multi-conn), and a flush on one that covers what others wrote."""
    with served(sets=SETS, time_mode="instant", pellucid=pellucid) as server:
        source, back = server.directory / "source", server.directory / "back"
        source.write_bytes(random.Random(1).randbytes(32 * MIB))
        run("nbdcopy", "--connections=4", "--requests=16", "--flush", source, server.uri())
        server.ask(do="power-cut")
        run("nbdcopy", "--connections=4", server.uri(), back)
        with back.open("rb") as found:
            assert found.read(32 * MIB) == source.read_bytes(), "flushed data of one of four connections are lost"
        server.fio("four", "--rw=randrw", "--bs=16k", "--size=8M", "--offset_increment=8M", "--numjobs=4",
                   "--iodepth=8", "--verify=crc32c", "--verify_fatal=1")


def fio_verify(pellucid):
    """Random writes and trims, every block verified, with the model's latency kept."""
    with served(sets=SETS, pellucid=pellucid) as server:
        verify = ["--bs=16k", "--size=32M", "--iodepth=16", "--verify=crc32c", "--verify_fatal=1"]
        server.fio("write", "--rw=randwrite", *verify)
        server.fio("trim", "--rw=randtrimwrite", "--bs=16k", "--size=16M", "--offset=64M", "--iodepth=8")
        server.fio("again", "--rw=randrw", *verify, "--numjobs=1", "--fsync=32")


def fio_power_cut(pellucid):
    """What was flushed before the power cut is verified after it."""
    with served(sets=SETS, pellucid=pellucid) as server:
        work = ["--bs=16k", "--size=24M", "--iodepth=16", "--verify=crc32c", "--randseed=5", "--rw=randwrite"]
        server.fio("before", *work, "--do_verify=0", "--end_fsync=1")
        run(pellucid, "power-cut", "--control", server.control)
        server.fio("before", *work, "--verify_only", "--verify_fatal=1")
        status = json.loads(run(pellucid, "status", "--control", server.control))
        assert status["drives"][0]["power_cuts"] == 1, status
        late = status["lateness_ns"]
        return f"completions late by {late['p50'] / 1e3:.0f} us p50, {late['p99'] / 1e3:.0f} us p99"


def copies(pellucid):
    """An image goes in with qemu-img, comes out with nbdcopy, and compares."""
    with served([SMALL], time_mode="instant", pellucid=pellucid) as server:
        size, qemu = nbdinfo(server)["exports"][0]["export-size"], qemu_uri(server, SMALL.stem)
        source, back = server.directory / "source", server.directory / "back"
        with source.open("wb") as out:
            out.write(random.Random(3).randbytes(8 * MIB))
            out.seek(20 * MIB)
            out.write(random.Random(4).randbytes(4 * MIB))
            out.truncate(size)
        run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", source, qemu)
        run("qemu-img", "compare", "-f", "raw", "-F", "raw", source, qemu)
        run("nbdcopy", server.uri(), back)
        run("cmp", source, back)
        data = sum(extent["length"] for extent in nbdinfo(server, "--map") if extent["type"] == 0)
        assert 12 * MIB <= data < size, f"{data} bytes of data in the map"
        qemu_io(qemu, "write -P 0x5a 1M 64k", "discard 0 512k", "flush", "read -P 0x5a 1M 64k", "read -P 0 0 512k")


def kill_and_return(pellucid):
    """With a file store, what was flushed survives SIGKILL of the server."""
    with tempfile.TemporaryDirectory() as directory:
        sets = [*SETS[1:], f"media.store=file:{directory}/image"]
        with served(sets=sets, time_mode="instant", pellucid=pellucid) as server:
            work = ["--bs=16k", "--size=24M", "--iodepth=16", "--verify=crc32c", "--randseed=6", "--rw=randwrite"]
            server.fio("kept", *work, "--do_verify=0", "--end_fsync=1")
            server.kill()
            server.start()
            server.fio("kept", *work, "--verify_only", "--verify_fatal=1")


def planned_faults(pellucid):
    """--fault by a seed: the same requests meet the same power cuts, which the log tells, and lose nothing flushed."""
    struck = []
    for _ in range(2):
        options = ["--fault", "power-cut@random:seed=7,mean=40,times=3", "--fault", "program-fail=0.01@20ops", "--log-format", "json"]
        with served([SMALL], time_mode="instant", options=options, pellucid=pellucid) as server:
            client, lost, written = Client(server.socket), [], {}
            for number in range(200):
                data = bytes([number]) * 4096

                def answered(error, _, number=number, data=data):
                    if error:
                        lost.append(number)
                    else:
                        written[number % 50] = data

                client.send(WRITE, number % 50 * 4096, 4096, answered, data, FUA)
                client.drain()
            for block, data in written.items():
                client.send(READ, block * 4096, 4096, lambda error, found, data=data: check(error, found, data))
                client.drain()
            status = server.ask(do="status")["drives"][0]
            assert status["power_cuts"] == 3, status
            faults = []

            def all_told():
                whole = [line for line in server.log().splitlines(keepends=True) if line.endswith("\n")]
                told = [e for e in map(json.loads, whole) if e["event"] in ("fault", "power-cut")]
                faults[:] = [(e["fault"].split("@")[0], e["operations"]) for e in told]
                return len(faults) >= 4

            wait_for(all_told, faults)
            assert len(faults) == 4, faults
            struck.append((faults, lost))
    assert struck[0] == struck[1], f"not repeatable: {struck}"
    return f"faults with operations {', '.join(operation for _, operation in struck[0][0])}"


def check(error, found, data):
    assert error == 0 and found == data, f"error {error}, {found[:8].hex()} where {data[:8].hex()} was written with FUA"


def certificates(directory):
    """A certificate authority, a server's and a client's certificate by it, under the names that libnbd and QEMU look for."""
    directory.mkdir()
    for name in ("ca", "server", "client"):
        key, request, certificate = (directory / f"{name}-{part}.pem" for part in ("key", "request", "cert"))
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key]
        if name == "ca":
            run("openssl", "req", "-x509", *new, "-out", certificate, "-days", "2", "-subj", "/CN=authority")
            continue
        run("openssl", "req", *new, "-out", request, "-subj", f"/CN={name}")
        extensions = directory / f"{name}.extensions"
        extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        run("openssl", "x509", "-req", "-in", request, "-out", certificate, "-days", "2", "-CA", directory / "ca-cert.pem",
            "-CAkey", directory / "ca-key.pem", "-CAcreateserial", "-extfile", extensions)


def tls(pellucid):
    """Only clients that speak TLS are served, with data intact; with --tls-verify-peer only those that have a certificate too."""
    with tempfile.TemporaryDirectory() as scratch:
        keys, strangers = Path(scratch, "keys"), Path(scratch, "strangers")
        certificates(keys)
        certificates(strangers)
        for option in ("client-cert.pem", "client-key.pem"):
            (strangers / option).rename(strangers / f"foreign-{option}")
        (strangers / "ca-cert.pem").write_bytes((keys / "ca-cert.pem").read_bytes())
        for verify in ([], ["--tls-verify-peer"]):
            with served(sets=SETS, time_mode="instant", pellucid=pellucid, options=["--tls", str(keys), *verify]) as server:
                uri = server.uri(PRESET).replace("nbd+", "nbds+", 1)

                def info(certificates):
                    return json.loads(run("nbdinfo", "--json", "--no-content", f"{uri}&tls-certificates={certificates}&tls-hostname=localhost"))

                assert info(keys)["TLS"], "libnbd speaks TLS"
                source, back = Path(scratch, "source"), Path(scratch, "back")
                source.write_bytes(random.Random(5).randbytes(4 * MIB))
                credentials = f"tls-creds-x509,id=t,dir={keys},endpoint=client"
                image = (f"driver=nbd,server.type=unix,server.path={server.socket},export={PRESET},tls-creds=t,"
                         "tls-hostname=localhost")
                run("qemu-img", "convert", "-n", "--object", credentials, "-f", "raw", "--target-image-opts", str(source), image)
                run("nbdcopy", f"{uri}&tls-certificates={keys}&tls-hostname=localhost", str(back))
                with back.open("rb") as copy:
                    assert copy.read(4 * MIB) == source.read_bytes(), "nbdcopy brings other data"
                refused = [lambda: run("nbdinfo", "--no-content", server.uri(PRESET))]
                refused += [lambda: info(strangers)] if verify else []
                for attempt in refused:
                    try:
                        attempt()
                    except AssertionError:
                        continue
                    raise AssertionError("served without TLS, or without a certificate")
                if verify:
                    wait_for(lambda: "TLS: " in server.log(), "the log says which peer was turned away and why")


CHUNKS = ROOT / "tools/guest/open-channel.toml"
ZONES = ROOT / "tools/guest/zoned.toml"


@contextlib.contextmanager
def remote(drive, pellucid, options=()):
    """A second process: a host FTL in front of the open-channel drive that the first serves."""
    options = ["--remote", f"127.0.0.1:{drive.port}", *options]
    with served([], sets=["host.ftl.over_provisioning=0.4"], options=options, pellucid=pellucid) as host:
        yield host


def remote_host_ftl(pellucid):
    """Two processes, a drive of chunks and a host FTL: verified through lost power at the far end and SIGKILL at the near one."""
    with tempfile.TemporaryDirectory() as directory:
        # Programs take their time, so that there are some under way when the power goes.
        sets = [f"media.store=file:{directory}/chunks", 'media.timing.program=["200us"]']
        # The drive loses its power twenty times while it is written; no write is lost, flushed or not.
        cuts = ["--fault", "power-cut@random:seed=7,mean=500,times=20"]
        with served([CHUNKS], sets=sets, nvme=True, options=cuts, pellucid=pellucid) as drive, remote(drive, pellucid) as host:
            work = ["--bs=4k", "--size=48M", "--iodepth=16", "--verify=crc32c", "--rw=randwrite"]
            host.fio("verify", *work, "--verify_fatal=1", "--loops=4")
            wait_for(lambda: host.log().count("event=remote-lost") >= 5, "the log tells of the lost connections")
            # What was flushed outlives the process of the host, and then that of the drive too.
            host.fio("kept", *work, "--randseed=6", "--do_verify=0", "--end_fsync=1")
            host.kill()
            host.start()
            host.fio("kept", *work, "--randseed=6", "--verify_only", "--verify_fatal=1")
            drive.kill()
            drive.start()
            host.fio("kept", *work, "--randseed=6", "--verify_only", "--verify_fatal=1")
            qemu_io(f"nbd:unix:{host.socket}", "write -P 7 0 64k", "discard 1M 64k", "flush", "read -P 7 0 64k", "read -P 0 1M 64k")
            return f"connected again {host.log().count('event=remote-back')} times"


def local_host_ftl(pellucid):
    """The same layer, and a log on zones, in the process of their drive, by the [host] of its description; a power cut takes all."""
    for drive, layer in ((CHUNKS, "host-ftl"), (ZONES, "zone-log")):
        sets = [f'host.layers=["{layer}"]', "host.ftl.over_provisioning=0.4"]
        with served([drive], sets=sets, pellucid=pellucid) as server:
            work = ["--bs=4k", "--size=24M", "--iodepth=16", "--verify=crc32c", "--rw=randwrite", "--randseed=7"]
            server.fio("kept", *work, "--do_verify=0", "--end_fsync=1")
            server.ask(do="power-cut")
            server.fio("kept", *work, "--verify_only", "--verify_fatal=1")


def recording(pellucid):
    """What was recorded is a trace that replay reads."""
    with tempfile.TemporaryDirectory() as directory:
        trace = f"{directory}/trace.log"
        with served(sets=SETS, options=["--record", trace], pellucid=pellucid) as server:
            server.fio("some", "--rw=randrw", "--bs=16k", "--size=8M", "--iodepth=8")
        sets = [word for value in SETS for word in ("--set", value)]
        report = json.loads(run(pellucid, "replay", PRESET, trace, "--json", *sets))
        assert report["requests"] >= 512, report["requests"]


def shell(command, pellucid, directory, **variables) -> str:
    """A line of the README or of an example, with our `pellucid` in front."""
    path = f"{Path(pellucid).parent}:{SYSTEM_PATH}"
    return run("sh", "-c", command, cwd=directory, env={**os.environ, "PATH": path, **variables})


def readme_tour(pellucid):
    """README's tour without root, as it stands there."""
    for client in ("fio", "nbdinfo", "nbdcopy", "qemu-img", "qemu-io"):
        program(client)
    with tempfile.TemporaryDirectory() as directory:
        (command,) = readme_commands("serve")
        words = [str(pellucid), *command.replace("4420", str(free_port())).split()[1:]]
        with open(f"{directory}/log", "w") as log:
            server = subprocess.Popen(words, cwd=directory, stderr=log)
        try:
            while not os.path.exists(f"{directory}/mine.control"):
                assert server.poll() is None, Path(directory, "log").read_text()
                time.sleep(0.02)
            commands = [c for c in readme_commands("nbd") + readme_commands("power") if "/mnt" not in c and "nvme" not in c]
            for command in commands:
                shell(command, pellucid, directory)
            server.terminate()
            assert server.wait(HANG_SECONDS) == 0, Path(directory, "log").read_text()
        finally:
            server.kill()
        return f"{len(commands)} commands"


def power_cut_check(pellucid):
    """The example for continuous integration holds, and fails when the drive forgets."""
    program("fio")
    script = (ROOT / "examples/serve/power-cut-check.sh").read_text()
    with tempfile.TemporaryDirectory() as directory:
        output = shell(script, pellucid, directory, SEED="3")
        assert "all that was flushed is there" in output, output
        try:
            shell(script.replace("durability=journal", "durability=volatile"), pellucid, directory, SEED="3")
        except AssertionError as why:
            assert "verify" in str(why), why
        else:
            raise AssertionError("a drive without journal passes")


TESTS = [information, export_list, block_map, size_after_restart, several_connections, fio_verify, fio_power_cut,
         copies, kill_and_return, planned_faults, tls, remote_host_ftl, local_host_ftl, recording,
         readme_tour, power_cut_check]


if __name__ == "__main__":
    main("real clients over NBD", __doc__, TESTS)
