#!/usr/bin/env python3
"""Writes crates/media/tests/data/ecc-vectors.txt: BCH code words made by an independent implementation.

The oracle is the package `bchlib` (PyPI), a Python binding of the BCH library of the Linux kernel:

    python3 -m venv venv && venv/bin/pip install bchlib && venv/bin/python tools/ecc_vectors.py

Conventions agree, so nothing is converted: the first bit of the data is the most significant bit of byte 0
and the highest coefficient; the parity is left-justified in its bytes; the field is defined by the smallest
primitive polynomial of its degree. The script checks the last point and refuses to write otherwise.

One vector per line: m t primitive-polynomial data parity errors decoded, where `errors` lists the bit
positions to flip (from the first bit of the data through the parity) and `decoded` is the number of bits the
oracle corrected, or -1.
"""
import pathlib
import random

import bchlib

CODES = [  # (data bytes, m, t, vectors): m is the smallest field with 8 * bytes + m * t <= 2^m - 1
    (256, 12, 13, 40),
    (16, 8, 2, 10),
    (64, 10, 3, 10),
    (200, 11, 9, 10),
    (512, 13, 8, 10),
    (1024, 14, 40, 5),
]
SMALLEST_PRIMITIVE = {8: 0x11D, 10: 0x409, 11: 0x805, 12: 0x1053, 13: 0x201B, 14: 0x402B}


def flip(data: bytearray, parity: bytearray, bit: int) -> None:
    target, bit = (data, bit) if bit < 8 * len(data) else (parity, bit - 8 * len(data))
    target[bit // 8] ^= 0x80 >> (bit % 8)


def vectors():
    rng = random.Random(20200713)
    for size, m, t, count in CODES:
        code = bchlib.BCH(t, m=m)
        assert code.prim_poly == SMALLEST_PRIMITIVE[m], (m, hex(code.prim_poly))
        for i in range(count):
            data = bytearray(rng.randbytes(size))
            parity = bytearray(code.encode(data))
            # From none to t errors in turn, then some beyond the strength.
            errors = min(i % (t + 4), t + 3)
            positions = rng.sample(range(8 * size + code.ecc_bits), errors)
            read, read_parity = bytearray(data), bytearray(parity)
            for bit in positions:
                flip(read, read_parity, bit)
            decoded = code.decode(data=read, recv_ecc=read_parity)
            listed = ",".join(map(str, positions)) or "-"
            yield f"{m} {t} {code.prim_poly:#x} {data.hex()} {parity.hex()} {listed} {decoded}"


def main() -> None:
    out = pathlib.Path(__file__).resolve().parent.parent / "crates/media/tests/data/ecc-vectors.txt"
    out.parent.mkdir(parents=True, exist_ok=True)
    header = [
        "# BCH code words made by tools/ecc_vectors.py with bchlib (PyPI), seeded random data.",
        "# m t primitive-polynomial data parity flipped-bits bits-corrected-by-the-oracle (-1: uncorrectable)",
    ]
    out.write_text("\n".join(header + list(vectors())) + "\n")


if __name__ == "__main__":
    main()
