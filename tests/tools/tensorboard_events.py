"""Reads files of TensorBoard events, with Python's own packages."""
import struct

POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF


def records(data):
    """The records of a TFRecord file, whose checksums hold."""
    found = []
    while data:
        length, = struct.unpack("<Q", data[:8])
        event = data[12:12 + length]
        assert struct.unpack("<I", data[8:12]) == (masked(data[:8]),), "checksum of a length"
        assert struct.unpack("<I", data[12 + length:16 + length]) == (masked(event),), "checksum of a record"
        found.append(event)
        data = data[16 + length:]
    return found


def varint(data):
    number = shift = 0
    for at, byte in enumerate(data):
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, data[at + 1:]
    raise ValueError("a number is cut off")


def fields(data):
    """(number, value) of a message's fields: numbers, floats or bytes."""
    found = []
    while data:
        key, data = varint(data)
        if key & 7 == 0:
            value, data = varint(data)
        elif key & 7 == 2:
            length, data = varint(data)
            value, data = data[:length], data[length:]
        else:
            kind, size = {1: ("<d", 8), 5: ("<f", 4)}[key & 7]
            value, data = struct.unpack(kind, data[:size])[0], data[size:]
        found.append((key >> 3, value))
    return found


def events(path):
    """Of each event: its step, and its scalars by tag, its version, or its session state."""
    found = []
    for record in records(path.read_bytes()):
        event = dict(fields(record))
        assert event[1] > 1.7e9, "wall time"
        scalars = {}
        for number, entry in fields(event.get(5, b"")):
            assert number == 1
            entry = dict(fields(entry))
            scalars[entry[1].decode()] = entry[2]
        found.append((event[2], scalars or event.get(3) or dict(fields(event[7]))))
    return found
