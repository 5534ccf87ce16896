#!/usr/bin/env python3
"""Makes the contents of the fixtures that layouts.sh records.

    stream.py plain FILE LENGTH             writes the start of the stream to FILE
    stream.py repeat FILE LENGTH PLAIN      writes PLAIN bytes of the stream, then each further word eight times
    stream.py change FILE OFFSET...         inverts the bytes at these offsets of FILE, in place

The stream consists of the words of SplitMix64, little endian, with a state that starts at 0.
"""

import itertools
import struct
import sys

MASK = (1 << 64) - 1


def words():
    state = 0
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        word = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
        yield struct.pack("<Q", word ^ (word >> 31))


def write(name, length, plain):
    word = words()
    content = b"".join(itertools.islice(word, (plain + 7) // 8))
    while len(content) < length:
        content += next(word) * 8
    with open(name, "wb") as file:
        file.write(content[:length])


def change(name, offsets):
    with open(name, "r+b") as file:
        for offset in offsets:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 0xFF]))


kind, name, *numbers = sys.argv[1:]
numbers = [int(number) for number in numbers]
if kind == "plain":
    write(name, numbers[0], numbers[0])
elif kind == "repeat":
    write(name, *numbers)
elif kind == "change":
    change(name, numbers)
else:
    sys.exit(__doc__)
