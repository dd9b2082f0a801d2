"""Says which parameters of a module each initializer of its export holds.

Values tell most. But exporters make one initializer of parameters that are equal, as zero biases are before training, or drop
such a bias where its operator does without, while layers that were copied are equal and lie apart: where several parameters fit,
gradients tell. An initializer's is the sum of those of the parameters that it holds, whatever function of the outputs is
differentiated, so that functions drawn at random leave one answer. Nothing that rannc reads of a file is asked: this is its judge.
"""
import collections
import dataclasses

import torch

import onnx_float64

# Of the largest gradient: what a parameter has without any effect, as the key bias of attention.
NO_EFFECT = 1e-11
# A file holds constants rounded to float32, so that its gradients are off by about 1e-8.
ALIKE = 1e-6


class Untold(Exception):
    """An initializer that several parameters fit, none of whose sums its gradient is."""


@dataclasses.dataclass(frozen=True)
class Part:
    """A parameter, and how an initializer has it: `none`, `transpose`, or `rows 0:N`, its first N."""
    parameter: str
    transform: str = "none"

    def laid_out(self, tensor):
        """A tensor of the parameter's shape, its elements in the order of the initializer's."""
        if self.transform == "transpose":
            return tensor.T
        return tensor[:self.rows()] if self.rows() else tensor

    def taken_back(self, tensor, shape):
        """The other way round; rows that the initializer lacks are zero."""
        if self.transform == "transpose":
            return tensor.T.reshape(shape)
        if not self.rows():
            return tensor.reshape(shape)
        return torch.cat([tensor.reshape(-1, shape[1]), tensor.new_zeros(shape[0] - self.rows(), shape[1])])

    def rows(self):
        return int(self.transform.partition(":")[2] or 0)


def trainable_initializers(module, model, samples=None):
    """Float initializers that may be parameters: of one element only those that are called as one. Of what the exporter
    repeated for so many samples, the part of one."""
    names = dict(module.named_parameters())

    def part(tensor):
        repeated = samples and tensor.dim() > 1 and len(tensor) == samples and bool((tensor == tensor[:1]).all())
        return tensor[:1] if repeated else tensor

    return {name: part(tensor) for name, tensor in onnx_float64.float_initializers(model).items()
            if tensor.numel() > 1 or name in names}


def transforms(tensor, parameter):
    """Those by which the parameter's values are the tensor's."""
    flat, found = tensor.squeeze(), []  # as [C, 1, 1] a parameter of C is the same numbers in the same order
    if parameter.squeeze().shape == flat.shape and torch.equal(parameter.squeeze(), flat):
        found.append("none")
    if parameter.dim() == 2 and parameter.T.shape == tensor.shape and torch.equal(parameter.T, tensor):
        found.append("transpose")
    fewer = parameter.dim() == flat.dim() == 2 and flat.shape[1] == parameter.shape[1] and len(flat) < len(parameter)
    if fewer and torch.equal(parameter[:len(flat)], flat) and bool((flat != flat[0, 0]).any()):
        found.append(f"rows 0:{len(flat)}")
    return found


def names_of(model):
    """Of each initializer its own name, and those that Identity nodes give it."""
    names = {proto.name: {proto.name} for proto in model.graph.initializer}
    kept = {name: name for name in names}
    for node in model.graph.node:
        if node.op_type == "Identity" and node.input[0] in kept:
            kept[node.output[0]] = kept[node.input[0]]
            names[kept[node.input[0]]].add(node.output[0])
    return names


class Gradients:
    """Of functions of the outputs that are drawn at random: `of(seed, shifts)` gives those of the module's parameters and of the
    file's initializers, by name, both moved by `shifts`, which are Shifts."""

    def __init__(self, of, shifts):
        self.of, self.shifts, self.known = of, shifts, []

    def first(self, count):
        while len(self.known) < count:
            self.known.append(self.of(len(self.known), self.shifts))
        return self.known[:count]


@dataclasses.dataclass(frozen=True)
class Shifts:
    """The same change of the module and of the file: what is added to parameters, and to initializers."""
    parameters: dict = dataclasses.field(default_factory=dict)
    initializers: dict = dataclasses.field(default_factory=dict)


def shifts_of(fitting, parameters, initializers):
    """Of all parameters about which values leave no doubt. A fresh model may be one through which no gradient comes, as where its
    last layer is zero."""
    doubtful = {part.parameter for parts in fitting.values() if len(parts) > 1 for part in parts}
    settled = {name: parts[0] for name, parts in fitting.items() if len(parts) == 1 and parts[0].parameter not in doubtful}
    generator = torch.Generator().manual_seed(0)
    added = {name: torch.randn(parameters[name].shape, generator=generator, dtype=torch.float64) / 10
             for name in sorted({part.parameter for part in settled.values()})}
    return Shifts(added, {name: part.laid_out(added[part.parameter]).reshape(initializers[name].shape) for name, part in settled.items()})


def without_effect(fitting, counted, names):
    """Nothing tells where those lie that no output depends on but the initializer's own names."""
    held = {part.parameter: part for part, counts in zip(fitting, counted) if not counts and part.parameter in names}
    return list(held.values())


def told_by_gradients(initializer, elements, fitting, names, gradients):
    """The parts among `fitting` whose gradients sum to the initializer's; nothing where none has a gradient."""
    sides = gradients.first(1 + -(-2 * len(fitting) // elements))
    columns = torch.stack([torch.cat([part.laid_out(module[part.parameter]).reshape(-1) for module, _ in sides]) for part in fitting])
    whole = torch.cat([file[initializer].reshape(-1) for _, file in sides])
    sizes = columns.norm(dim=1)
    largest = max(float(gradient.norm()) for module, _ in sides for gradient in module.values())
    counted = sizes > max(NO_EFFECT * largest, ALIKE * float(sizes.max()))
    if not counted.any():
        return None
    held = without_effect(fitting, counted, names)
    columns, sizes = columns[counted], sizes[counted]
    times = (torch.linalg.lstsq((columns / sizes[:, None]).T, whole[:, None]).solution[:, 0] / sizes).round()
    off = (columns.T @ times - whole).norm()
    if not set(times.tolist()) <= {0.0, 1.0} or off > ALIKE * max(float(whole.norm()), float(sizes.max())):
        raise Untold
    effective = [part for part, counts in zip(fitting, counted) if counts]
    return [part for part, once in zip(effective, times) if once] + held


def parts_of(initializer, elements, fitting, names, gradients):
    """Of those that fit by value; `gradients` are asked one after another, until one has any."""
    if len(fitting) < 2:
        return fitting
    several = sorted({part.parameter for part in fitting})
    try:
        if not gradients:
            raise Untold
        answers = (told_by_gradients(initializer, elements, fitting, names, each) for each in gradients)
        told = next((parts for parts in answers if parts is not None), without_effect(fitting, [False] * len(fitting), names))
    except Untold:
        if len(several) == 1:
            return fitting[:1]  # one of several copies has only its share of the gradient
        raise Untold(f"initializer '{initializer}' equals the parameters {', '.join(several)}, and "
                     + ("its gradient is no sum of theirs" if gradients else "there is no float64 evaluation of the file that tells them apart")
                     + ": give them different values") from None
    return told or (fitting[:1] if len(several) == 1 else [])


def held_parameters(module, model, gradients_of=None, samples=None):
    """{initializer: its parts}: several where the exporter made one of them, none where it holds no parameter. Raises Untold with
    their names where several fit and gradients, which are those of `Gradients.of`, if there are any, do not tell."""
    parameters = {name: tensor.detach().double() for name, tensor in module.named_parameters()}
    initializers, names = trainable_initializers(module, model, samples), names_of(model)
    fitting = {initializer: [Part(name, transform) for name, value in parameters.items() for transform in transforms(tensor, value)]
               for initializer, tensor in initializers.items()}
    gradients = [Gradients(gradients_of, shifts) for shifts in (Shifts(), shifts_of(fitting, parameters, initializers))] if gradients_of else []
    return {initializer: parts_of(initializer, tensor.numel(), fitting[initializer], names[initializer], gradients)
            for initializer, tensor in initializers.items()}


def under_names_of(model, held, twin, held_by_twin, numbers, module, samples):
    """The gradients of `twin` for the initializers of `model` that hold the same parameters, copies of one in the order of the
    file, else the same numbers, as they are or transposed."""
    own = trainable_initializers(module, model, samples)
    others = trainable_initializers(module, twin)
    shapes = {name: parameter.shape for name, parameter in module.named_parameters()}
    copies = collections.defaultdict(list)
    for name, parts in held_by_twin.items():
        copies[frozenset(part.parameter for part in parts)].append(name)
    gradients = {}
    for name, tensor in own.items():
        alike = copies[frozenset(part.parameter for part in held[name])] if held[name] else []
        same = [other for other, value in others.items() if torch.equal(value, tensor)]
        turned = [other for other, value in others.items() if value.dim() == 2 and torch.equal(value.T, tensor)]
        if alike:
            other = name if name in alike else alike[0]
            copies[frozenset(part.parameter for part in held[name])] = [rest for rest in alike if rest != other] or alike
            part = held[name][0]
            source = next(found for found in held_by_twin[other] if found.parameter == part.parameter)
            gradients[name] = part.laid_out(source.taken_back(numbers.gradients[other], shapes[part.parameter]))
        elif same:
            gradients[name] = numbers.gradients[name if name in same else same[0]]
        elif turned:
            gradients[name] = numbers.gradients[turned[0]].T
    return numbers._replace(gradients=gradients)


Matches = collections.namedtuple("Matches", "single merged rest missing")


def matches_of(held, module):
    """Initializers of one part, of several, of none; parameters that are in none."""
    single = {name: parts[0] for name, parts in held.items() if len(parts) == 1}
    merged = {name: parts for name, parts in held.items() if len(parts) > 1}
    found = {part.parameter for parts in held.values() for part in parts}
    return Matches(single, merged, [name for name, parts in held.items() if not parts],
                   sorted({name for name, _ in module.named_parameters()} - found))


def of_initializers(gradients, single):
    return {name: part.laid_out(gradients[part.parameter]) for name, part in single.items()}


def by_parameter(gradients, single, shapes):
    """The other way round; the shares of tied copies are summed."""
    sums = {}
    for name, part in single.items():
        share = part.taken_back(gradients[name], shapes[part.parameter])
        sums[part.parameter] = sums[part.parameter] + share if part.parameter in sums else share
    return sums


def sums_of_merged(gradients, merged):
    """By initializer, as a flat tensor."""
    return {name: sum(part.laid_out(gradients[part.parameter]).reshape(-1) for part in parts) for name, parts in merged.items()}
