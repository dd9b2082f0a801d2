"""The operators of ONNX that look at windows and places: convolutions, pooling, padding, resizing, in float64 with PyTorch."""
import math

import torch
import torch.nn.functional as F

from onnx_float64_operators import integers, operator


def pairs_of(pads):
    """ONNX's begins and ends of each axis as F.pad has them: last axis first."""
    half = len(pads) // 2
    return [pair for axis in reversed(range(half)) for pair in (pads[axis], pads[axis + half])]


def window_pads(attributes, x, kernel):
    automatic = attributes.get("auto_pad", "NOTSET")
    axes = x.dim() - 2
    if automatic == "NOTSET":
        return attributes.get("pads", [0] * 2 * axes)
    if automatic == "VALID":
        return [0] * 2 * axes
    strides, dilations = attributes.get("strides", [1] * axes), attributes.get("dilations", [1] * axes)
    total = [max(0, (-(-size // stride) - 1) * stride + (extent - 1) * dilation + 1 - size)
             for size, stride, extent, dilation in zip(x.shape[2:], strides, kernel, dilations)]
    less, more = [amount // 2 for amount in total], [amount - amount // 2 for amount in total]
    return less + more if automatic == "SAME_UPPER" else more + less


def padded(attributes, x, kernel, value):
    pads = window_pads(attributes, x, kernel)
    return F.pad(x, pairs_of(pads), value=value) if any(pads) else x


@operator("Conv")
def convolution(attributes, x, weight, bias=None):
    function = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x.dim()]
    ones = [1] * (x.dim() - 2)
    return function(padded(attributes, x, weight.shape[2:], 0.0), weight, bias, stride=attributes.get("strides", ones),
                    dilation=attributes.get("dilations", ones), groups=attributes.get("group", 1))


@operator("ConvTranspose")
def transposed_convolution(attributes, x, weight, bias=None):
    if attributes.get("auto_pad", "NOTSET") != "NOTSET" or "output_shape" in attributes:
        raise NotImplementedError("ConvTranspose with a shape of its result")
    function = {3: F.conv_transpose1d, 4: F.conv_transpose2d, 5: F.conv_transpose3d}[x.dim()]
    ones = [1] * (x.dim() - 2)
    whole = function(x, weight, bias, stride=attributes.get("strides", ones), dilation=attributes.get("dilations", ones),
                     groups=attributes.get("group", 1), output_padding=0)
    more = attributes.get("output_padding", [0] * len(ones))
    pads = attributes.get("pads", [0] * 2 * len(ones))
    grown = F.pad(whole, pairs_of([0] * len(ones) + more))
    if bias is not None and any(more):
        missing = F.pad(torch.ones_like(whole), pairs_of([0] * len(ones) + more)) == 0
        grown = torch.where(missing, bias.view([1, -1] + ones), grown)
    return F.pad(grown, pairs_of([-amount for amount in pads]))


@operator("DeformConv")
def deformable_convolution(attributes, x, weight, offset, bias=None, mask=None):
    from torchvision.ops import deform_conv2d
    return deform_conv2d(padded(attributes, x, weight.shape[2:], 0.0), offset, weight, bias, stride=attributes.get("strides", [1, 1]),
                         dilation=attributes.get("dilations", [1, 1]), mask=mask)


def windows(attributes, x, outside, inside):
    """Every window of x, padding included, as an axis of its own at the end; and whether each place counts."""
    kernel, axes = attributes["kernel_shape"], x.dim() - 2
    strides, dilations = attributes.get("strides", [1] * axes), attributes.get("dilations", [1] * axes)
    pads = window_pads(attributes, x, kernel)
    shown, counts = F.pad(x, pairs_of(pads), value=outside), F.pad(torch.ones_like(x), pairs_of(pads), value=inside)
    for axis in range(axes):
        size, reach = shown.shape[axis + 2], (kernel[axis] - 1) * dilations[axis] + 1
        number = (size - reach) // strides[axis] + 1
        if attributes.get("ceil_mode", 0):
            number = -(-(size - reach) // strides[axis]) + 1
            number -= (number - 1) * strides[axis] >= x.shape[axis + 2] + pads[axis]
        lacks = max(0, (number - 1) * strides[axis] + reach - size)
        behind = [0, 0] * (axes - 1) + [0, lacks]  # axes behind this one, and windows of those before
        shown, counts = F.pad(shown, behind, value=outside), F.pad(counts, behind, value=0.0)
        place = torch.arange(number).unsqueeze(1) * strides[axis] + torch.arange(kernel[axis]) * dilations[axis]
        shown, counts = (t.index_select(axis + 2, place.reshape(-1)).unflatten(axis + 2, place.shape).movedim(axis + 3, -1)
                         for t in (shown, counts))
    return shown.flatten(-axes), counts.flatten(-axes)


@operator("MaxPool")
def max_pool(attributes, x):
    return windows(attributes, x, float("-inf"), 0.0)[0].max(-1).values


@operator("AveragePool")
def average_pool(attributes, x):
    shown, counts = windows(attributes, x, 0.0, float(attributes.get("count_include_pad", 0)))
    return shown.sum(-1) / counts.sum(-1)


@operator("LpPool")
def norm_pool(attributes, x):
    return torch.linalg.vector_norm(windows(attributes, x, 0.0, 0.0)[0], attributes.get("p", 2), -1)


@operator("GlobalAveragePool")
def global_average_pool(attributes, x):
    return x.mean(list(range(2, x.dim())), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(attributes, x):
    return x.amax(list(range(2, x.dim())), keepdim=True)


@operator("Pad")
def pad(attributes, x, pads=None, value=None, axes=None):
    mode = attributes.get("mode", "constant")
    pads = integers(pads) if pads is not None else attributes["pads"]
    axes = [axis % x.dim() for axis in integers(axes)] if axes is not None else list(range(x.dim()))
    for axis, before, behind in zip(axes, pads[:len(axes)], pads[len(axes):]):
        size = x.shape[axis]
        place = torch.arange(-before, size + behind)
        within = {"constant": place.clamp(0, size - 1), "edge": place.clamp(0, size - 1), "wrap": place % size,
                  "reflect": (size - 1) - ((place % max(1, 2 * size - 2)) - (size - 1)).abs()}[mode]
        x = x.index_select(axis, within)
        if mode == "constant":
            outside = ((place < 0) | (place >= size)).view([-1] + [1] * (x.dim() - 1 - axis))
            x = torch.where(outside, attributes.get("value", 0.0) if value is None else value.reshape(()), x)
    return x


def places(attributes, size, result, scale):
    """Where each entry of the result lies on an axis of x."""
    mode, at = attributes.get("coordinate_transformation_mode", "half_pixel"), torch.arange(result, dtype=torch.float64)
    if mode == "align_corners":
        return at * (size - 1) / (scale * size - 1) if scale * size > 1 else at * 0
    if mode == "asymmetric":
        return at / scale
    if mode == "half_pixel_symmetric":
        return size / 2 * (1 - result / (scale * size)) + (at + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel" and result == 1:
        return at * 0
    if mode not in ("half_pixel", "pytorch_half_pixel"):
        raise NotImplementedError(f"Resize by {mode}")
    return (at + 0.5) / scale - 0.5


def cubic(distance, a):
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return torch.where(distance <= 1, near, torch.where(distance < 2, far, 0.0))


def resize_weights(attributes, size, result, scale):
    """Rows of the result, columns of x."""
    mode, at = attributes.get("mode", "nearest"), places(attributes, size, result, scale)
    if mode == "nearest":
        rule = attributes.get("nearest_mode", "round_prefer_floor")
        picked = {"floor": torch.floor, "ceil": torch.ceil, "round_prefer_ceil": lambda t: torch.floor(t + 0.5),
                  "round_prefer_floor": lambda t: torch.ceil(t - 0.5)}[rule](at)
        return F.one_hot(picked.long().clamp(0, size - 1), size).double()
    stretch = max(1.0, 1 / scale) if attributes.get("antialias", 0) else 1.0
    reach = math.ceil((2 if mode == "cubic" else 1) * stretch)
    taps = at.floor().unsqueeze(1) + torch.arange(1 - reach, reach + 1)
    distance = (at.unsqueeze(1) - taps).abs() / stretch
    weights = cubic(distance, attributes.get("cubic_coeff_a", -0.75)) if mode == "cubic" else (1 - distance).clamp(min=0)
    if attributes.get("exclude_outside", 0):
        weights = torch.where((taps < 0) | (taps >= size), 0.0, weights)
    weights = weights / weights.sum(1, keepdim=True)
    return torch.zeros(result, size, dtype=torch.float64).scatter_add(1, taps.long().clamp(0, size - 1), weights)


@operator("Resize", "Upsample")
def resize(attributes, x, *operands):
    if len(operands) == 1:  # opset 10, Upsample
        operands = (None, operands[0])
    _, scales, sizes, *_ = (*operands, None)
    axes = [axis % x.dim() for axis in attributes.get("axes", range(x.dim()))]
    if attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise NotImplementedError("Resize that keeps an aspect ratio")
    for i, axis in enumerate(axes):
        size = x.shape[axis]
        scale = float(scales[i]) if scales is not None and scales.numel() else int(sizes[i]) / size
        result = int(sizes[i]) if sizes is not None and sizes.numel() else math.floor(size * scale)
        if scale != 1 or result != size:
            x = torch.tensordot(x, resize_weights(attributes, size, result, scale), dims=([axis], [1])).movedim(-1, axis)
    return x


@operator("GridSample")
def sample_grid(attributes, x, grid):
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(attributes.get("mode", "linear"), attributes.get("mode", "linear"))
    return F.grid_sample(x, grid, mode, attributes.get("padding_mode", "zeros"), bool(attributes.get("align_corners", 0)))


@operator("AffineGrid")
def affine_grid(attributes, theta, size):
    return F.affine_grid(theta, integers(size), bool(attributes.get("align_corners", 0)))


@operator("DepthToSpace")
def depth_to_space(attributes, x):
    n, c, h, w = x.shape
    b = attributes["blocksize"]
    if attributes.get("mode", "DCR") == "CRD":
        return F.pixel_shuffle(x, b)
    return x.reshape(n, b, b, c // b // b, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // b // b, h * b, w * b)


@operator("SpaceToDepth")
def space_to_depth(attributes, x):
    n, c, h, w = x.shape
    b = attributes["blocksize"]
    return x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)


@operator("Col2Im")
def columns_to_image(attributes, x, image, block):
    pads = attributes.get("pads", [0] * 4)
    if len(integers(block)) != 2 or pads[:2] != pads[2:]:
        raise NotImplementedError("Col2Im but of two axes, padded evenly")
    return F.fold(x, integers(image), integers(block), attributes.get("dilations", [1, 1]), pads[:2], attributes.get("strides", [1, 1]))
