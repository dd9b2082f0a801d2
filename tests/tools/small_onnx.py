"""Writes ONNX files of a few nodes, field by field: these tests need no package but Python's own."""
import struct

FLOAT, INT32, INT64 = 1, 6, 7


def varint(number):
    out = bytearray()
    while True:
        number, low = number >> 7, number & 127
        out.append(low | (128 if number else 0))
        if not number:
            return bytes(out)


def field(number, value):
    """A field of a message: a number, a text, or the bytes of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(name, shape, values):
    """A float initializer."""
    return b"".join(field(1, extent) for extent in shape) + field(2, FLOAT) + field(8, name) + field(
        9, struct.pack(f"<{len(values)}f", *values))


def value(name, kind, shape):
    """An input or output; text extents are symbols."""
    extents = b"".join(field(1, field(1, extent) if isinstance(extent, int) else field(2, extent)) for extent in shape)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, extents)))


def node(op, inputs, outputs, name):
    return b"".join(field(1, entry) for entry in inputs) + b"".join(field(2, entry) for entry in outputs) + field(3, name) + field(4, op)


def write(path, nodes, initializers, inputs, outputs, opset=17):
    graph = b"".join(field(1, entry) for entry in nodes) + field(2, "main")
    graph += b"".join(field(5, entry) for entry in initializers)
    graph += b"".join(field(11, entry) for entry in inputs) + b"".join(field(12, entry) for entry in outputs)
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, opset)))
    return path
