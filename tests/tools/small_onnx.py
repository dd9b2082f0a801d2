"""Writes ONNX files of a few nodes, field by field: these tests need no package but Python's own."""
import struct

FLOAT, INT8, INT32, INT64, BOOL, FLOAT16, DOUBLE, BFLOAT16 = 1, 3, 6, 7, 9, 10, 11, 16

FORMATS = {FLOAT: "f", INT8: "b", INT32: "i", INT64: "q", BOOL: "?", FLOAT16: "e", DOUBLE: "d"}


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


def raw(kind, values):
    """The bytes of numbers; those of bfloat16 are the upper half of float32's, rounded towards zero."""
    if kind == BFLOAT16:
        return b"".join(struct.pack("<f", number)[2:] for number in values)
    return struct.pack(f"<{len(values)}{FORMATS[kind]}", *values)


def rounded(kind, values):
    """The numbers as that type holds them."""
    data = raw(kind, values)
    if kind == BFLOAT16:
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    return list(struct.unpack(f"<{len(values)}{FORMATS[kind]}", data))


def tensor(name, shape, values, kind=FLOAT):
    """An initializer."""
    return b"".join(field(1, extent) for extent in shape) + field(2, kind) + field(8, name) + field(9, raw(kind, values))


def number_attribute(name, value):
    return field(5, field(1, name) + field(3, value) + field(20, 2))


def numbers_attribute(name, values):
    return field(5, field(1, name) + b"".join(field(8, each) for each in values) + field(20, 7))


def text_attribute(name, value):
    return field(5, field(1, name) + field(4, value) + field(20, 3))


def value(name, kind, shape):
    """An input or output; text extents are symbols."""
    extents = b"".join(field(1, field(1, extent) if isinstance(extent, int) else field(2, extent)) for extent in shape)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, extents)))


def node(op, inputs, outputs, name, *attributes):
    return b"".join([*(field(1, entry) for entry in inputs), *(field(2, entry) for entry in outputs), field(3, name), field(4, op),
                     *attributes])


def write(path, nodes, initializers, inputs, outputs, opset=17):
    graph = b"".join(field(1, entry) for entry in nodes) + field(2, "main")
    graph += b"".join(field(5, entry) for entry in initializers)
    graph += b"".join(field(11, entry) for entry in inputs) + b"".join(field(12, entry) for entry in outputs)
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, opset)))
    return path
