#!/usr/bin/env python3
"""Writes crates/target/tests/data/dhchap-vectors.txt and dh-vectors.txt: responses of DH-HMAC-CHAP, and the exchanges before them,
computed with Python's hashlib, hmac and integers.

    python3 tools/dhchap_vectors.py

From the NVM Express Base Specification, 8.3.5, with the null group and no secure channel:

    key      = K                                            DHHC-1:00
             = HMAC_XX(K, NQN of the owner || "NVMe-over-Fabrics")   DHHC-1:01, 02, 03
    response = HMAC(key, C || S (4 bytes) || T_ID (2 bytes) || SC_C (1 byte, 0)
                    || "HostHost"   || NQN of the host      || 00h || NQN of the subsystem)    of the host
                    || "Controller" || NQN of the subsystem || 00h || NQN of the host)         of the controller

With a group the challenge C in it is replaced by HMAC(H(g^xy mod p), C), where g^xy is as long as p, its highest byte first. The primes
are those of RFC 7919: 2^b - 2^(b-64) + (floor(2^(b-130) e) + X) 2^64 - 1, and g is 2.

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


# Bits of p and X.
GROUPS = {1: (2048, 560316), 2: (3072, 2625351), 3: (4096, 5736041), 4: (6144, 15705020), 5: (8192, 10965728)}


def prime(bits: int, x: int) -> int:
    # floor(2^(bits - 130) e), by the series with 64 bits more.
    term, total, n = 1 << (bits - 130 + 64), 0, 0
    while term:
        total, n = total + term, n + 1
        term //= n
    return 2**bits - 2 ** (bits - 64) + ((total >> 64) + x) * 2**64 - 1


def exchanges():
    rng = random.Random(20260102)
    for group, (bits, x) in GROUPS.items():
        p, size = prime(bits, x), bits // 8
        mine, theirs = rng.randbytes(64), rng.randbytes(64)
        power = lambda base, exponent: pow(base, int.from_bytes(exponent, "big"), p)
        public, other = power(2, mine), power(2, theirs)
        shared = power(other, mine)
        assert shared == power(public, theirs)
        for hash_id, function in HASHES.items():
            challenge = rng.randbytes(function().digest_size)
            key = function(shared.to_bytes(size, "big")).digest()
            augmented = hmac.new(key, challenge, function).hexdigest()
            digest = hashlib.sha256(public.to_bytes(size, "big")).hexdigest()
            yield (f"{group} {mine.hex()} {other.to_bytes(size, 'big').hex()} {digest} {hash_id} {challenge.hex()} {augmented}")


def main() -> None:
    out = pathlib.Path(__file__).resolve().parent.parent / "crates/target/tests/data/dhchap-vectors.txt"
    out.parent.mkdir(parents=True, exist_ok=True)
    header = [
        "# Responses of DH-HMAC-CHAP made by tools/dhchap_vectors.py with hashlib and hmac, seeded random keys.",
        "# secret hash T_ID S host subsystem C response-of-the-host response-of-the-controller",
    ]
    out.write_text("\n".join(header + list(vectors())) + "\n")
    header = [
        "# Exchanges of DH-HMAC-CHAP made by tools/dhchap_vectors.py with Python's integers, seeded random exponents.",
        "# group x g^y SHA-256-of-g^x hash C augmented-C",
    ]
    (out.parent / "dh-vectors.txt").write_text("\n".join(header + list(exchanges())) + "\n")


if __name__ == "__main__":
    main()
