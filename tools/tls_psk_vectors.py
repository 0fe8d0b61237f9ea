#!/usr/bin/env python3
"""Writes crates/target/tests/data/tls-psk-vectors.txt: identities and keys of TLS under NVMe/TCP, computed with Python's hashlib and hmac.

    python3 tools/tls_psk_vectors.py

From the NVM Express TCP Transport Specification, 3.6.1, and RFC 8446, 7.1; HH is 01 (SHA-256) or 02 (SHA-384), by the length of the key:

    retained = configured                                                         NVMeTLSkey-1:00
             = Expand-Label(Extract(0, configured), "HostNQN", NQN of the host)   NVMeTLSkey-1:01, 02
    digest   = base64(HMAC(retained, NQN of the host || " " || NQN of the subsystem || " NVMe-over-Fabrics"))
    identity = "NVMe0RHH host subsystem", "NVMe1RHH host subsystem digest"
    key      = Expand-Label(Extract(0, retained), "nvme-tls-psk", identity)       version 0
             = Expand-Label(Extract(0, retained), "nvme-tls-psk", "HH digest")    version 1

One vector per line: configured key|identity|key.
"""
import base64
import hashlib
import hmac
import pathlib
import random
import struct
import zlib

HASHES = {1: hashlib.sha256, 2: hashlib.sha384}
KEYS = [(0, 32), (0, 48), (1, 32), (2, 48)]  # (transformation, bytes of the key)
SUBSYSTEMS = ["nqn.2026-01.org.pellucid:drive", "nqn.2014-08.org.nvmexpress.discovery"]


def expand_label(function, key: bytes, label: str, context: bytes, size: int) -> bytes:
    extracted = hmac.new(bytes(function().digest_size), key, function).digest()
    label = b"tls13 " + label.encode()
    info = struct.pack(">HB", size, len(label)) + label + struct.pack("B", len(context)) + context
    return hmac.new(extracted, info + b"\1", function).digest()[:size]


def vectors():
    rng = random.Random(20260102)
    for transform, size in KEYS:
        hash_id = 1 if size == 32 else 2
        function, name = HASHES[hash_id], f"{hash_id:02}"
        key = rng.randbytes(size)
        printed = base64.b64encode(key + zlib.crc32(key).to_bytes(4, "little")).decode()
        for subsystem in SUBSYSTEMS:
            host = f"nqn.2014-08.org.nvmexpress:uuid:{rng.randbytes(4).hex()}-0000-4000-8000-{rng.randbytes(6).hex()}"
            retained = key
            if transform:
                retained = expand_label(HASHES[transform], key, "HostNQN", host.encode(), size)
            seed = f"{host} {subsystem} NVMe-over-Fabrics".encode()
            digest = base64.b64encode(hmac.new(retained, seed, function).digest()).decode()
            plain = f"NVMe0R{name} {host} {subsystem}"
            for identity, context in [(plain, plain), (f"NVMe1R{name} {host} {subsystem} {digest}", f"{name} {digest}")]:
                derived = expand_label(function, retained, "nvme-tls-psk", context.encode(), size)
                yield f"NVMeTLSkey-1:{transform:02}:{printed}:|{identity}|{derived.hex()}"


def main():
    path = pathlib.Path(__file__).parent.parent / "crates/target/tests/data/tls-psk-vectors.txt"
    lines = ["# Written by tools/tls_psk_vectors.py: configured key|identity|key of the handshake", *vectors()]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
