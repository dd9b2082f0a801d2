"""The operators of ONNX that compute elements, indices and shapes, in float64 with PyTorch, for onnx_float64.py.

`OPERATORS` is the one table of names; onnx_float64_layers.py and onnx_float64_windows.py add theirs.
"""
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
    array = numpy_helper.to_array(proto)
    return widen(torch.from_numpy(array.astype("float32") if array.dtype.name == "bfloat16" else array.copy()))


def integers(tensor):
    return [int(entry) for entry in tensor.reshape(-1).tolist()]


UNARY = {
    "Abs": torch.abs, "Acos": torch.acos, "Acosh": torch.acosh, "Asin": torch.asin, "Asinh": torch.asinh, "Atan": torch.atan,
    "Atanh": torch.atanh, "BitwiseNot": torch.bitwise_not, "Ceil": torch.ceil, "Cos": torch.cos, "Cosh": torch.cosh, "Det": torch.linalg.det,
    "Erf": torch.erf, "Exp": torch.exp, "Floor": torch.floor, "Identity": lambda x: x, "IsNaN": torch.isnan, "Log": torch.log,
    "Neg": torch.neg, "Not": torch.logical_not, "Reciprocal": torch.reciprocal, "Relu": torch.relu, "Round": torch.round,
    "Sigmoid": torch.sigmoid, "Sign": torch.sign, "Sin": torch.sin, "Sinh": torch.sinh, "Softplus": F.softplus, "Sqrt": torch.sqrt,
    "Tan": torch.tan, "Tanh": torch.tanh,
}
BINARY = {
    "Add": torch.add, "And": torch.logical_and, "BitwiseAnd": torch.bitwise_and, "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor, "Equal": torch.eq, "Greater": torch.gt, "GreaterOrEqual": torch.ge, "Less": torch.lt,
    "LessOrEqual": torch.le, "MatMul": torch.matmul, "Mul": torch.mul, "Or": torch.logical_or, "Pow": torch.pow, "Sub": torch.sub,
    "Xor": torch.logical_xor,
}
for _name, _function in UNARY.items():
    OPERATORS[_name] = lambda attributes, x, _function=_function: _function(x)
for _name, _function in BINARY.items():
    OPERATORS[_name] = lambda attributes, x, y, _function=_function: _function(x, y)


@operator("Div")
def divide(attributes, x, y):
    return x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


@operator("Mod")
def remainder(attributes, x, y):
    return torch.fmod(x, y) if attributes.get("fmod", 0) else torch.remainder(x, y)


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


@operator("Mean")
def mean_of_all(attributes, *terms):
    return sum(terms[1:], terms[0]) / len(terms)


@operator("IsInf")
def is_infinite(attributes, x):
    found = torch.zeros_like(x, dtype=torch.bool)
    if attributes.get("detect_positive", 1):
        found = found | torch.isposinf(x)
    return found | torch.isneginf(x) if attributes.get("detect_negative", 1) else found


@operator("Clip")
def clip(attributes, x, low=None, high=None):
    return x if low is None and high is None else torch.clamp(x, low, high)


@operator("HardSigmoid")
def hard_sigmoid(attributes, x):
    return F.hardtanh(attributes.get("alpha", 0.2) * x + attributes.get("beta", 0.5), 0.0, 1.0)


@operator("HardSwish")
def hard_swish(attributes, x):
    return F.hardswish(x)


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


def reduction(function):
    def reduce(attributes, x, axes=None):
        named = integers(axes) if axes is not None else attributes.get("axes")
        if not named:
            if attributes.get("noop_with_empty_axes", 0):
                return x
            named = list(range(x.dim()))
        return function(x, list(named), bool(attributes.get("keepdims", 1)))

    return reduce


def one_axis_after_another(function):
    def reduce(x, axes, keep):
        for axis in sorted((axis % x.dim() for axis in axes), reverse=True):
            x = function(x, axis, keep)
        return x

    return reduce


REDUCTIONS = {
    "ReduceL1": lambda x, axes, keep: x.abs().sum(axes, keepdim=keep),
    "ReduceL2": lambda x, axes, keep: torch.linalg.vector_norm(x, 2, axes, keepdim=keep),
    "ReduceLogSum": lambda x, axes, keep: x.sum(axes, keepdim=keep).log(),
    "ReduceLogSumExp": lambda x, axes, keep: x.logsumexp(axes, keepdim=keep),
    "ReduceMax": lambda x, axes, keep: x.amax(axes, keepdim=keep),
    "ReduceMean": lambda x, axes, keep: x.mean(axes, keepdim=keep),
    "ReduceMin": lambda x, axes, keep: x.amin(axes, keepdim=keep),
    "ReduceProd": one_axis_after_another(lambda x, axis, keep: x.prod(axis, keepdim=keep)),
    "ReduceSum": lambda x, axes, keep: x.sum(axes, keepdim=keep),
    "ReduceSumSquare": lambda x, axes, keep: x.square().sum(axes, keepdim=keep),
}
for _name, _function in REDUCTIONS.items():
    OPERATORS[_name] = reduction(_function)


def place_of(function):
    def place(attributes, x):
        axis, last = attributes.get("axis", 0), bool(attributes.get("select_last_index", 0))
        found = function(x.flip(axis) if last else x, axis, bool(attributes.get("keepdims", 1)))
        return x.shape[axis] - 1 - found if last else found

    return place


OPERATORS["ArgMax"], OPERATORS["ArgMin"] = place_of(torch.argmax), place_of(torch.argmin)


@operator("TopK")
def top(attributes, x, count):
    axis = attributes.get("axis", -1)
    ordered = torch.sort(x, dim=axis, descending=bool(attributes.get("largest", 1)), stable=True)
    return [part.narrow(axis, 0, int(count)) for part in ordered]


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


@operator("Size")
def size_of(attributes, x):
    return torch.tensor(x.numel())


@operator("Range")
def arange(attributes, start, limit, delta):
    return torch.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


@operator("Cast")
def cast(attributes, x):
    target = helper.tensor_dtype_to_np_dtype(attributes["to"])
    return x.double() if target.kind in "fV" else x.to(getattr(torch, target.name))


@operator("CastLike")
def cast_like(attributes, x, like):
    return x.to(like.dtype)


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
    if "split" in attributes:
        return torch.split(x, attributes["split"], axis)
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
    shared = attributes.get("batch_dims", 0)
    own = [torch.arange(x.shape[axis]).reshape([-1] + [1] * (indices.dim() - 2 - axis)) for axis in range(shared)]
    return x[(*own, *indices.movedim(-1, 0))]

@operator("GatherElements")
def gather_elements(attributes, x, indices):
    axis = attributes.get("axis", 0)
    return torch.gather(x, axis, torch.where(indices < 0, indices + x.shape[axis], indices))


SCATTERED = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("ScatterElements", "Scatter")
def scatter_elements(attributes, x, indices, updates):
    axis, kind = attributes.get("axis", 0), attributes.get("reduction", "none")
    indices = torch.where(indices < 0, indices + x.shape[axis], indices)
    if kind == "none":
        return torch.scatter(x, axis, indices, updates)
    return torch.scatter_reduce(x, axis, indices, updates, SCATTERED[kind], include_self=True)


@operator("ScatterND")
def scatter_nd(attributes, x, indices, updates):
    kind = attributes.get("reduction", "none")
    if kind not in ("none", "add"):
        raise NotImplementedError("ScatterND that neither sets nor adds")
    return x.index_put(tuple(indices.movedim(-1, 0)), updates, accumulate=kind == "add")


@operator("OneHot")
def one_hot(attributes, indices, depth, values):
    axis = attributes.get("axis", -1)
    hot = F.one_hot(torch.remainder(indices.long(), int(depth)), int(depth)).bool()
    return torch.where(hot.movedim(-1, axis), values[1], values[0])


@operator("NonZero")
def places_that_are_not_zero(attributes, x):
    return torch.nonzero(x).T


@operator("Compress")
def compress(attributes, x, condition):
    axis = attributes.get("axis")
    picked = torch.nonzero(condition).reshape(-1)
    return x.reshape(-1)[picked] if axis is None else x.index_select(axis, picked)


@operator("EyeLike")
def identity_matrix(attributes, x):
    rows, columns = torch.arange(x.shape[0]).unsqueeze(1), torch.arange(x.shape[1])
    eye = columns - rows == attributes.get("k", 0)
    return cast({"to": attributes["dtype"]}, eye) if "dtype" in attributes else eye.to(x.dtype)


@operator("Einsum")
def einsum(attributes, *operands):
    return torch.einsum(attributes["equation"], *operands)


@operator("CumSum")
def cumulative_sum(attributes, x, axis):
    axis = int(axis)
    turn = (lambda t: t.flip(axis)) if attributes.get("reverse", 0) else (lambda t: t)
    x = turn(x)
    sums = torch.cumsum(x, axis)
    return turn(sums - x if attributes.get("exclusive", 0) else sums).to(x.dtype)


@operator("ReverseSequence")
def reverse_sequences(attributes, x, lengths):
    time, batch = attributes.get("time_axis", 0), attributes.get("batch_axis", 1)
    x = x.movedim((batch, time), (0, 1))
    step, lengths = torch.arange(x.shape[1]), lengths.unsqueeze(1)
    place = torch.where(step < lengths, lengths - 1 - step, step)
    return x[torch.arange(x.shape[0]).unsqueeze(1), place].movedim((0, 1), (batch, time))


@operator("Trilu")
def triangle(attributes, x, diagonal=None):
    offset = 0 if diagonal is None else int(diagonal)
    return torch.triu(x, offset) if attributes.get("upper", 1) else torch.tril(x, offset)
