"""The operators of ONNX that are layers: products, normalizations, attention, recurrence, in float64 with PyTorch."""
import torch
import torch.nn.functional as F

from onnx_float64_operators import operator


@operator("Gemm")
def gemm(attributes, a, b, c=None):
    a = a.T if attributes.get("transA", 0) else a
    b = b.T if attributes.get("transB", 0) else b
    product = attributes.get("alpha", 1.0) * (a @ b)
    return product if c is None else product + attributes.get("beta", 1.0) * c


@operator("Softmax")
def softmax(attributes, x):
    """A row of nothing but -infinity gives NaN, which passes nothing back: exports put zeros in its place."""
    axis = attributes.get("axis", -1)
    hidden = (x == float("-inf")).all(axis, keepdim=True)
    return torch.where(hidden, float("nan"), torch.softmax(torch.where(hidden, 0.0, x), axis))


@operator("LogSoftmax")
def log_softmax(attributes, x):
    return torch.log_softmax(x, attributes.get("axis", -1))


@operator("LpNormalization")
def lp_normalization(attributes, x):
    norm = torch.linalg.vector_norm(x, attributes.get("p", 2), attributes.get("axis", -1), keepdim=True)
    return torch.where(norm == 0, 0.0, x / torch.where(norm == 0, 1.0, norm))


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
def attention(attributes, q, k, v, mask=None, *past):
    """Of four axes, without what is past, as exports of scaled_dot_product_attention are."""
    if past or q.dim() != 4 or attributes.get("softcap", 0) or attributes.get("qk_matmul_output_mode", 0):
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


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood(attributes, x, labels, weight=None):
    return F.nll_loss(x, labels.long(), None if weight is None else weight.detach(), reduction=attributes.get("reduction", "mean"),
                      ignore_index=attributes.get("ignore_index", -100))


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(attributes, scores, labels, weight=None):
    logs = torch.log_softmax(scores, 1)
    return [negative_log_likelihood(attributes, logs, labels, weight), logs]
