"""Evaluates the operators of an ONNX file one after another in float64 with PyTorch, differentiable by its autograd.

Every float tensor, constant and attribute is the file's float32 value, widened; a Cast to a float type means float64.
What a node's metadata say of gradients, and its operator cannot, holds. The evaluator is written from the operators' text and knows nothing of rannc, so that it can be its judge. It covers
what `OPERATORS` lists; `unknown_operators` says what it would lack.
"""
import re

import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper

OPERATORS = {}


def operator(*names):
    def register(function):
        for name in names:
            OPERATORS[name] = function
        return function

    return register


def widen(tensor):
    return tensor.double() if tensor.is_floating_point() else tensor


def tensor_of(proto):
    return widen(torch.from_numpy(numpy_helper.to_array(proto).copy()))


def integers(tensor):
    return [int(entry) for entry in tensor.reshape(-1).tolist()]


UNARY = {
    "Abs": torch.abs, "Ceil": torch.ceil, "Cos": torch.cos, "Erf": torch.erf, "Exp": torch.exp, "Floor": torch.floor,
    "Identity": lambda x: x, "IsNaN": torch.isnan, "Log": torch.log, "Neg": torch.neg, "Not": torch.logical_not,
    "Reciprocal": torch.reciprocal, "Relu": torch.relu, "Sigmoid": torch.sigmoid, "Sin": torch.sin, "Softplus": F.softplus,
    "Sqrt": torch.sqrt, "Tanh": torch.tanh,
}
BINARY = {
    "Add": torch.add, "And": torch.logical_and, "Equal": torch.eq, "Greater": torch.gt, "GreaterOrEqual": torch.ge,
    "Less": torch.lt, "LessOrEqual": torch.le, "MatMul": torch.matmul, "Mod": torch.remainder, "Mul": torch.mul,
    "Or": torch.logical_or, "Pow": torch.pow, "Sub": torch.sub,
}
for _name, _function in UNARY.items():
    OPERATORS[_name] = lambda attributes, x, _function=_function: _function(x)
for _name, _function in BINARY.items():
    OPERATORS[_name] = lambda attributes, x, y, _function=_function: _function(x, y)


@operator("Div")
def divide(attributes, x, y):
    return x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


@operator("Max")
def maximum(attributes, first, *others):
    for other in others:
        first = torch.maximum(first, other)
    return first


@operator("Min")
def minimum(attributes, first, *others):
    for other in others:
        first = torch.minimum(first, other)
    return first


@operator("Sum")
def add_all(attributes, *terms):
    return sum(terms[1:], terms[0])


@operator("Where")
def where(attributes, condition, x, y):
    return torch.where(condition, x, y)


@operator("Clip")
def clip(attributes, x, low=None, high=None):
    return torch.clamp(x, low, high)


@operator("Gelu")
def gelu(attributes, x):
    return F.gelu(x, approximate=attributes.get("approximate", "none"))


@operator("LeakyRelu")
def leaky_relu(attributes, x):
    return F.leaky_relu(x, attributes.get("alpha", 0.01))


@operator("Dropout")
def dropout(attributes, x, ratio=None, training=None):
    if training is not None and bool(training):
        raise NotImplementedError("Dropout in training mode has no reference numbers")
    return x


@operator("Gemm")
def gemm(attributes, a, b, c=None):
    a = a.T if attributes.get("transA", 0) else a
    b = b.T if attributes.get("transB", 0) else b
    product = attributes.get("alpha", 1.0) * (a @ b)
    return product if c is None else product + attributes.get("beta", 1.0) * c


@operator("Softmax")
def softmax(attributes, x):
    return torch.softmax(x, attributes.get("axis", -1))


@operator("LogSoftmax")
def log_softmax(attributes, x):
    return torch.log_softmax(x, attributes.get("axis", -1))


@operator("LayerNormalization")
def layer_normalization(attributes, x, scale, bias=None):
    axis = attributes.get("axis", -1) % x.dim()
    axes = list(range(axis, x.dim()))
    centred = x - x.mean(axes, keepdim=True)
    variance = (centred * centred).mean(axes, keepdim=True)
    result = centred / torch.sqrt(variance + attributes.get("epsilon", 1e-5)) * scale
    return result if bias is None else result + bias


def grouped(attributes, x, groups):
    """Each group of channels of each sample less its mean, over its deviation."""
    rows = x.reshape(x.shape[0], groups, -1)
    centred = rows - rows.mean(2, keepdim=True)
    variance = (centred * centred).mean(2, keepdim=True)
    return (centred / torch.sqrt(variance + attributes.get("epsilon", 1e-5))).reshape(x.shape)


@operator("InstanceNormalization")
def instance_normalization(attributes, x, scale, bias):
    shape = [1, -1] + [1] * (x.dim() - 2)
    return grouped(attributes, x, x.shape[1]) * scale.view(shape) + bias.view(shape)


@operator("GroupNormalization")
def group_normalization(attributes, x, scale, bias):
    """Scale and bias are per group before opset 21; where groups are channels that is the same."""
    shape = [1, -1] + [1] * (x.dim() - 2)
    each = x.shape[1] // scale.numel()
    scale, bias = scale.repeat_interleave(each), bias.repeat_interleave(each)
    return grouped(attributes, x, attributes["num_groups"]) * scale.view(shape) + bias.view(shape)


@operator("Attention")
def attention(attributes, q, k, v, mask=None):
    """Of four axes, without what is past, as exports of scaled_dot_product_attention are."""
    if q.dim() != 4 or attributes.get("softcap", 0) or attributes.get("qk_matmul_output_mode", 0):
        raise NotImplementedError("this form of Attention")
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(2, 3) * attributes.get("scale", q.shape[3] ** -0.5)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    if attributes.get("is_causal", 0):
        seen = torch.ones(scores.shape[2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~seen, float("-inf"))
    return torch.softmax(scores, 3) @ v


@operator("BatchNormalization")
def batch_normalization(attributes, x, scale, bias, mean, variance):
    if attributes.get("training_mode", 0):
        raise NotImplementedError("BatchNormalization in training mode")
    shape = [1, -1] + [1] * (x.dim() - 2)
    inverse = 1 / torch.sqrt(variance + attributes.get("epsilon", 1e-5))
    return (x - mean.view(shape)) * (inverse * scale).view(shape) + bias.view(shape)


def padded(attributes, x, value):
    if attributes.get("auto_pad", "NOTSET") != "NOTSET":
        raise NotImplementedError("auto_pad")
    pads = attributes.get("pads", [0] * 2 * (x.dim() - 2))
    half = len(pads) // 2
    pairs = [pair for axis in reversed(range(half)) for pair in (pads[axis], pads[axis + half])]
    return F.pad(x, pairs, value=value) if any(pads) else x


@operator("Conv")
def convolution(attributes, x, weight, bias=None):
    function = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x.dim()]
    ones = [1] * (x.dim() - 2)
    return function(padded(attributes, x, 0.0), weight, bias, stride=attributes.get("strides", ones),
                    dilation=attributes.get("dilations", ones), groups=attributes.get("group", 1))


@operator("MaxPool")
def max_pool(attributes, x):
    if attributes.get("ceil_mode", 0):
        raise NotImplementedError("MaxPool with ceil_mode")
    kernel = attributes["kernel_shape"]
    function = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[len(kernel)]
    return function(padded(attributes, x, float("-inf")), kernel, attributes.get("strides", [1] * len(kernel)),
                    dilation=attributes.get("dilations", 1))


@operator("AveragePool")
def average_pool(attributes, x):
    if attributes.get("ceil_mode", 0) or any(attributes.get("pads", [])) and not attributes.get("count_include_pad", 0):
        raise NotImplementedError("AveragePool with ceil_mode, or padding that does not count")
    kernel = attributes["kernel_shape"]
    function = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[len(kernel)]
    return function(padded(attributes, x, 0.0), kernel, attributes.get("strides", [1] * len(kernel)))


@operator("GlobalAveragePool")
def global_average_pool(attributes, x):
    return x.mean(list(range(2, x.dim())), keepdim=True)


def reduction(function):
    def reduce(attributes, x, axes=None):
        named = integers(axes) if axes is not None else attributes.get("axes")
        if named is None:
            if attributes.get("noop_with_empty_axes", 0):
                return x
            named = list(range(x.dim()))
        return function(x, list(named), bool(attributes.get("keepdims", 1)))

    return reduce


OPERATORS["ReduceMean"] = reduction(lambda x, axes, keep: x.mean(axes, keepdim=keep))
OPERATORS["ReduceSum"] = reduction(lambda x, axes, keep: x.sum(axes, keepdim=keep))
OPERATORS["ReduceMax"] = reduction(lambda x, axes, keep: x.amax(axes, keepdim=keep))


@operator("Constant")
def constant(attributes):
    if "value" in attributes:
        return tensor_of(attributes["value"])
    for key in ("value_int", "value_ints", "value_float", "value_floats"):
        if key in attributes:
            return torch.tensor(attributes[key], dtype=torch.float64 if "float" in key else torch.int64)
    raise NotImplementedError("Constant of strings or sparse values")


@operator("ConstantOfShape")
def constant_of_shape(attributes, shape):
    value = tensor_of(attributes["value"]) if "value" in attributes else torch.zeros(1, dtype=torch.float64)
    return value.reshape(()).expand(integers(shape))


@operator("Shape")
def shape_of(attributes, x):
    return torch.tensor(list(x.shape)[attributes.get("start", 0):attributes.get("end")], dtype=torch.int64)


@operator("Range")
def arange(attributes, start, limit, delta):
    return torch.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


@operator("Cast")
def cast(attributes, x):
    target = helper.tensor_dtype_to_np_dtype(attributes["to"])
    if target.kind == "f" or target.kind == "V":
        return x.double()
    return x.to({"bool": torch.bool, "int64": torch.int64, "int32": torch.int32}[target.name])


@operator("Reshape")
def reshape(attributes, x, shape):
    keep_zero = attributes.get("allowzero", 0)
    return x.reshape([x.shape[i] if size == 0 and not keep_zero else size for i, size in enumerate(integers(shape))])


@operator("Flatten")
def flatten(attributes, x):
    axis = attributes.get("axis", 1)
    axis = axis + x.dim() if axis < 0 else axis
    rows = 1
    for size in x.shape[:axis]:
        rows *= size
    return x.reshape(rows, -1)


@operator("Transpose")
def transpose(attributes, x):
    return x.permute(attributes.get("perm", list(reversed(range(x.dim())))))


@operator("Expand")
def expand(attributes, x, shape):
    return x.expand(torch.broadcast_shapes(x.shape, integers(shape)))


@operator("Tile")
def tile(attributes, x, repeats):
    return x.repeat(integers(repeats))


@operator("Unsqueeze")
def unsqueeze(attributes, x, axes=None):
    named = integers(axes) if axes is not None else attributes["axes"]
    rank = x.dim() + len(named)
    for axis in sorted(axis % rank for axis in named):
        x = x.unsqueeze(axis)
    return x


@operator("Squeeze")
def squeeze(attributes, x, axes=None):
    named = integers(axes) if axes is not None else attributes.get("axes")
    if named is None:
        return x.squeeze()
    for axis in sorted((axis % x.dim() for axis in named), reverse=True):
        x = x.squeeze(axis)
    return x


@operator("Concat")
def concat(attributes, *parts):
    return torch.cat(parts, attributes["axis"])


@operator("Split")
def split(attributes, x, sizes=None):
    axis = attributes.get("axis", 0)
    if sizes is not None:
        return torch.split(x, integers(sizes), axis)
    if "num_outputs" not in attributes:
        raise NotImplementedError("Split without sizes before opset 18")
    return torch.split(x, -(-x.shape[axis] // attributes["num_outputs"]), axis)


@operator("Slice")
def slice_axes(attributes, x, starts, ends, axes=None, steps=None):
    starts, ends = integers(starts), integers(ends)
    axes = integers(axes) if axes is not None else list(range(len(starts)))
    steps = integers(steps) if steps is not None else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        picked = range(x.shape[axis])[slice(start, None if step < 0 and end < -x.shape[axis] else end, step)]
        x = x.index_select(axis, torch.tensor(list(picked), dtype=torch.int64))
    return x


@operator("Gather")
def gather(attributes, x, indices):
    axis = attributes.get("axis", 0) % x.dim()
    indices = torch.where(indices < 0, indices + x.shape[axis], indices)
    picked = x.index_select(axis, indices.reshape(-1))
    return picked.reshape(list(x.shape[:axis]) + list(indices.shape) + list(x.shape[axis + 1:]))


@operator("GatherND")
def gather_nd(attributes, x, indices):
    if attributes.get("batch_dims", 0):
        raise NotImplementedError("GatherND with batch_dims")
    return x[tuple(indices.movedim(-1, 0))]


@operator("CumSum")
def cumulative_sum(attributes, x, axis):
    if attributes.get("exclusive", 0) or attributes.get("reverse", 0):
        raise NotImplementedError("CumSum that is exclusive or reverse")
    return torch.cumsum(x, int(axis)).to(x.dtype)


@operator("Trilu")
def triangle(attributes, x, diagonal=None):
    offset = 0 if diagonal is None else int(diagonal)
    return torch.triu(x, offset) if attributes.get("upper", 1) else torch.tril(x, offset)


@operator("LSTM", "GRU", "RNN")
def recurrent(attributes, x, weight, recurrence, bias=None, lengths=None, hidden=None, cell=None, peepholes=None):
    """All steps of all directions by the operators' equations; which of the three it is says the number of gates."""
    given = set(attributes) - {"hidden_size", "direction", "input_forget", "layout", "linear_before_reset", "activations"}
    size, gates = recurrence.shape[2], recurrence.shape[1] // recurrence.shape[2]
    functions = {name.lower() for name in attributes.get("activations", [])}
    relu = functions == {b"relu"}
    if given or peepholes is not None or attributes.get("input_forget") or attributes.get("layout") \
            or functions and (gates > 1 or functions not in ({b"tanh"}, {b"relu"})):
        raise NotImplementedError("recurrent layers beyond what PyTorch exports")
    ys, lasts = [], []
    for direction in range(weight.shape[0]):
        backwards = attributes.get("direction") == "reverse" or direction == 1
        biases = torch.zeros(2 * gates * size, dtype=x.dtype) if bias is None else bias[direction]
        state = [torch.zeros(x.shape[1], size, dtype=x.dtype) if s is None else s[direction] for s in (hidden, cell)]
        steps = []
        times = range(x.shape[0])
        for time in reversed(times) if backwards else times:
            row, before = x[time], list(state)
            a = (row @ weight[direction].T + biases[:gates * size]).split(size, -1)
            b = (state[0] @ recurrence[direction].T + biases[gates * size:]).split(size, -1)
            if gates == 4:
                i, o, f, c = (p + q for p, q in zip(a, b))
                state[1] = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(c)
                state[0] = torch.sigmoid(o) * torch.tanh(state[1])
            elif gates == 3:
                z, r = torch.sigmoid(a[0] + b[0]), torch.sigmoid(a[1] + b[1])
                if attributes.get("linear_before_reset", 0):
                    n = torch.tanh(a[2] + r * b[2])
                else:
                    n = torch.tanh(a[2] + (r * state[0]) @ recurrence[direction].T[:, 2 * size:] + biases[5 * size:])
                state[0] = (1 - z) * n + z * state[0]
            else:
                state[0] = (torch.relu if relu else torch.tanh)(a[0] + b[0])
            inside = torch.full((x.shape[1], 1), True) if lengths is None else (time < lengths).unsqueeze(1)
            steps.append(torch.where(inside, state[0], 0.0))
            state = [torch.where(inside, new, old) for new, old in zip(state, before)]
        ys.append(torch.stack(steps[::-1] if backwards else steps))
        lasts.append(state)
    return [torch.stack(ys, 1)] + [torch.stack(parts) for parts in zip(*lasts)][:2 if gates == 4 else 1]


def attributes_of(node):
    values = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


def unknown_operators(model):
    """Operators of the file that `evaluate` does not know, sorted; local functions and other domains among them."""
    return sorted({node.op_type for node in model.graph.node if node.domain not in ("", "ai.onnx") or node.op_type not in OPERATORS})


def float_initializers(model):
    """Every float initializer by name, widened to float64."""
    tensors = {proto.name: tensor_of(proto) for proto in model.graph.initializer}
    return {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}


def traced_call(node):
    """Target and arguments, as text, of the call that torch.onnx.export(dynamo=True) made a node from."""
    for entry in node.metadata_props:
        found = re.search(r"target=torch\.ops\.([\w.]+)\]\(args = \((.*?)\), kwargs", entry.value)
        if entry.key == "pkg.torch.onnx.fx_node" and found:
            return found[1], [argument.strip() for argument in found[2].split(",")]
    return "", []


def with_lost_gradients(node, arguments, attributes):
    """A node's results where its metadata know of gradients that its operator does not: at bounds, ties, padding, detach."""
    target, names = traced_call(node)
    for place, name in enumerate(names[:len(arguments)]):
        if re.fullmatch(r"%detach(_\d+)?", name):
            arguments[place] = arguments[place].detach()
    if node.op_type == "Clip" and re.match(r"aten\.(relu6|hardtanh)\.", target):
        return F.hardtanh(arguments[0], float(arguments[1]), float(arguments[2]))
    if node.op_type == "ReduceMax" and target == "aten.max.dim":
        return arguments[0].max(dim=int(names[1]), keepdim=bool(attributes.get("keepdims", 1))).values
    if node.op_type == "Gather" and target.startswith("aten.embedding.") and len(names) > 2 and int(names[2]) >= 0:
        return F.embedding(arguments[1], arguments[0], padding_idx=int(names[2]))
    return OPERATORS[node.op_type](attributes, *arguments)


def evaluate(model, inputs, initializers):
    """Graph outputs by name. `initializers` replace those of the same names: leaves that ask for a gradient."""
    values = {proto.name: tensor_of(proto) for proto in model.graph.initializer}
    values.update(initializers)
    values.update({name: widen(tensor) for name, tensor in inputs.items()})
    for node in model.graph.node:
        arguments = [values[name] if name else None for name in node.input]
        results = with_lost_gradients(node, arguments, attributes_of(node))
        results = results if isinstance(results, (tuple, list)) else [results]
        values.update({name: result for name, result in zip(node.output, results) if name})
    return {output.name: values[output.name] for output in model.graph.output}


def load(path):
    return onnx.load(path)
