#!/usr/bin/env python3
"""Writes crates/serve/tests/data/dhchap-vectors.txt: responses of DH-HMAC-CHAP, computed with Python's hashlib and hmac.

    python3 tools/dhchap_vectors.py

From the NVM Express Base Specification, 8.3.5, with the null group and no secure channel:

    key      = K                                            DHHC-1:00
             = HMAC_XX(K, NQN of the owner || "NVMe-over-Fabrics")   DHHC-1:01, 02, 03
    response = HMAC(key, C || S (4 bytes) || T_ID (2 bytes) || SC_C (1 byte, 0)
                    || "HostHost"   || NQN of the host      || 00h || NQN of the subsystem)    of the host
                    || "Controller" || NQN of the subsystem || 00h || NQN of the host)         of the controller

One vector per line: secret hash T_ID S host subsystem C response-of-the-host response-of-the-controller.
"""
import base64
import hashlib
import hmac
import pathlib
import random
import zlib

HASHES = {1: hashlib.sha256, 2: hashlib.sha384, 3: hashlib.sha512}
SECRETS = [(0, 32), (0, 48), (0, 64), (1, 32), (2, 48), (3, 64)]  # (transformation, bytes of the key)


def printed(transform: int, key: bytes) -> str:
    checksum = zlib.crc32(key).to_bytes(4, "little")
    return f"DHHC-1:{transform:02}:{base64.b64encode(key + checksum).decode()}:"


def transformed(transform: int, key: bytes, owner: str) -> bytes:
    if transform == 0:
        return key
    return hmac.new(key, owner.encode() + b"NVMe-over-Fabrics", HASHES[transform]).digest()


def response(hash_id, transform, key, challenge, sequence, transaction, role, owner, other) -> str:
    message = challenge + sequence.to_bytes(4, "little") + transaction.to_bytes(2, "little") + b"\0"
    message += role + owner.encode() + b"\0" + other.encode()
    return hmac.new(transformed(transform, key, owner), message, HASHES[hash_id]).hexdigest()


def vectors():
    rng = random.Random(20260101)
    for hash_id, function in HASHES.items():
        for transform, size in SECRETS:
            key, challenge = rng.randbytes(size), rng.randbytes(function().digest_size)
            transaction, sequence = rng.randrange(1 << 16), rng.randrange(1, 1 << 32)
            host = f"nqn.2014-08.org.nvmexpress:uuid:{rng.randbytes(4).hex()}-0000-4000-8000-{rng.randbytes(6).hex()}"
            subsystem = f"nqn.2026-01.org.pellucid:drive{rng.randrange(100)}"
            common = (hash_id, transform, key, challenge, sequence, transaction)
            of_host = response(*common, b"HostHost", host, subsystem)
            of_controller = response(*common, b"Controller", subsystem, host)
            yield (f"{printed(transform, key)} {hash_id} {transaction} {sequence} {host} {subsystem} "
                   f"{challenge.hex()} {of_host} {of_controller}")


def main() -> None:
    out = pathlib.Path(__file__).resolve().parent.parent / "crates/serve/tests/data/dhchap-vectors.txt"
    out.parent.mkdir(parents=True, exist_ok=True)
    header = [
        "# Responses of DH-HMAC-CHAP made by tools/dhchap_vectors.py with hashlib and hmac, seeded random keys.",
        "# secret hash T_ID S host subsystem C response-of-the-host response-of-the-controller",
    ]
    out.write_text("\n".join(header + list(vectors())) + "\n")


if __name__ == "__main__":
    main()
