"""Reading of one field of a protobuf message, without the library."""

from __future__ import annotations

VARINT, FIXED64, BYTES = 0, 1, 2  # wire types


def find_field(message: bytes, number: int) -> bytes:
    """Content of the first field with this number that holds bytes or a message; empty if there is none."""
    place = 0
    while place < len(message):
        tag, place = read_varint(message, place)
        kind = tag & 7
        if kind == VARINT:
            _, place = read_varint(message, place)
        elif kind == BYTES:
            size, place = read_varint(message, place)
            if tag >> 3 == number:
                return message[place : place + size]
            place += size
        else:
            place += 8 if kind == FIXED64 else 4
    return b""


def read_varint(message: bytes, place: int) -> tuple[int, int]:
    """A number in groups of seven bits, lowest first, and the place after it."""
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
