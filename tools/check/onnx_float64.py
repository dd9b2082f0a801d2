"""Evaluates the operators of an ONNX file one after another in float64 with PyTorch, differentiable by its autograd.

Every float tensor, constant and attribute is the file's float32 value, widened; a Cast to a float type means float64.
What a node's metadata say of gradients, and its operator cannot, holds. The evaluator is written from the operators' text and knows
nothing of rannc, so that it can be its judge. It covers what `OPERATORS` lists, operators that ONNX defines by others, local
functions, bodies of If, Loop and Scan; `unknown_operators` says what it would lack.
"""
import re

import onnx
import torch
import torch.nn.functional as F
from onnx import defs, helper

import onnx_float64_layers  # noqa: F401 (fills the table)
import onnx_float64_windows  # noqa: F401
from onnx_float64_operators import OPERATORS, integers, operator, tensor_of, widen

ONNX = ("", "ai.onnx")
CONTROL = ("If", "Loop", "Scan")


@operator("SequenceConstruct")
def sequence(attributes, *parts):
    return [list(parts)]


@operator("SequenceEmpty")
def empty_sequence(attributes):
    return [[]]


@operator("SequenceInsert")
def insert(attributes, parts, part, place=None):
    at = len(parts) if place is None else int(place)
    return [parts[:at] + [part] + parts[at:]]


@operator("SequenceErase")
def erase(attributes, parts, place=None):
    at = (-1 if place is None else int(place)) % len(parts)
    return [parts[:at] + parts[at + 1:]]


@operator("SequenceAt")
def part_at(attributes, parts, place):
    return parts[int(place)]


@operator("SequenceLength")
def sequence_length(attributes, parts):
    return torch.tensor(len(parts))


@operator("ConcatFromSequence")
def concat_sequence(attributes, parts):
    return (torch.stack if attributes.get("new_axis", 0) else torch.cat)(parts, attributes["axis"])


@operator("SplitToSequence")
def split_to_sequence(attributes, x, sizes=None):
    axis = attributes.get("axis", 0)
    if sizes is None:
        parts = x.split(1, axis)
        return [list(parts) if attributes.get("keepdims", 1) else [part.squeeze(axis) for part in parts]]
    return [list(x.split(int(sizes) if sizes.dim() == 0 else integers(sizes), axis))]


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


def without_detached(node, arguments):
    """A node's arguments, those detached that the exported program had detached."""
    names = traced_call(node)[1]
    gone = [place < len(names) and re.fullmatch(r"%detach(_\d+)?", names[place]) for place in range(len(arguments))]
    return [argument.detach() if lost else argument for argument, lost in zip(arguments, gone)]


def with_lost_gradients(node, arguments, attributes):
    """A node's results where its metadata know of gradients that its operator does not: at bounds, ties, padding; else none."""
    target, names = traced_call(node)
    if node.op_type == "Clip" and re.match(r"aten\.(relu6|hardtanh)\.", target):
        return F.hardtanh(arguments[0], float(arguments[1]), float(arguments[2]))
    if node.op_type == "ReduceMax" and target == "aten.max.dim":
        return arguments[0].max(dim=int(names[1]), keepdim=bool(attributes.get("keepdims", 1))).values
    if node.op_type == "Gather" and target.startswith("aten.embedding.") and len(names) > 2 and int(names[2]) >= 0:
        return F.embedding(arguments[1], arguments[0], padding_idx=int(names[2]))
    return None


def schema_of(node, opsets):
    try:
        domain = "" if node.domain in ONNX else node.domain
        return defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
    except defs.SchemaError:
        return None


def has_definition(schema):
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def type_of(argument):
    kind = torch.float64 if argument is None else argument.dtype
    return helper.make_tensor_type_proto({torch.float64: 11, torch.int64: 7, torch.int32: 6, torch.bool: 9}[kind],
                                         None if argument is None else list(argument.shape))


class Evaluation:
    """Values of one graph or function body; what a body reads from outside it finds in the values it was given."""

    def __init__(self, opsets, functions, values, bound=None):
        self.opsets, self.functions, self.values, self.bound = opsets, functions, values, bound or {}

    def attributes_of(self, node):
        values = {}
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                if attribute.ref_attr_name in self.bound:
                    values[attribute.name] = self.bound[attribute.ref_attr_name]
                continue
            value = helper.get_attribute_value(attribute)
            values[attribute.name] = value.decode() if isinstance(value, bytes) else value
        return values

    def run(self, nodes):
        for node in nodes:
            arguments = without_detached(node, [self.values[name] if name else None for name in node.input])
            results = self.results_of(node, arguments, self.attributes_of(node))
            results = results if isinstance(results, (tuple, list)) else [results]
            self.values.update({name: result for name, result in zip(node.output, results) if name})

    def results_of(self, node, arguments, attributes):
        function = self.functions.get((node.domain, node.op_type))
        if function is not None:
            return self.call(function, arguments, attributes)
        if node.op_type in CONTROL:
            return getattr(self, "run_" + node.op_type.lower())(attributes, *arguments)
        special = with_lost_gradients(node, arguments, attributes)
        if special is not None:
            return special
        if node.domain in ONNX and node.op_type in OPERATORS:
            return OPERATORS[node.op_type](attributes, *arguments)
        return self.by_definition(node, arguments, attributes)

    def call(self, function, arguments, attributes):
        """A function's results; nodes inside see the attributes of this call, else the function's own defaults."""
        defaults = {attribute.name: helper.get_attribute_value(attribute) for attribute in function.attribute_proto}
        arguments = list(arguments) + [None] * (len(function.input) - len(arguments))
        opsets = {**self.opsets, **{entry.domain: entry.version for entry in function.opset_import}}
        inner = Evaluation(opsets, self.functions, dict(zip(function.input, arguments)), {**defaults, **attributes})
        inner.values[""] = None
        inner.run(function.node)
        return [inner.values.get(name) for name in function.output]

    def by_definition(self, node, arguments, attributes):
        schema = schema_of(node, self.opsets)
        if not has_definition(schema):
            raise NotImplementedError(node.op_type)
        if schema.has_function:
            return self.call(schema.function_body, arguments, {**{
                name: helper.get_attribute_value(default.default_value) for name, default in schema.attributes.items()
                if default.default_value.name}, **attributes})
        concrete = onnx.NodeProto()
        concrete.CopyFrom(node)
        function = onnx.FunctionProto()
        function.ParseFromString(schema.get_context_dependent_function(
            concrete.SerializeToString(), [type_of(argument).SerializeToString() for argument in arguments]))
        return self.call(function, arguments, attributes)

    def body(self, graph, arguments):
        inner = Evaluation(self.opsets, self.functions, dict(self.values), self.bound)
        inner.values.update({proto.name: tensor_of(proto) for proto in graph.initializer})
        inner.values.update({value.name: argument for value, argument in zip(graph.input, arguments)})
        inner.run(graph.node)
        return [inner.values[value.name] for value in graph.output]

    def run_if(self, attributes, condition):
        return self.body(attributes["then_branch" if bool(condition) else "else_branch"], [])

    def run_loop(self, attributes, trips=None, condition=None, *states):
        body, rows, trip, states = attributes["body"], [], 0, list(states)
        going = condition is None or bool(condition)
        while going and (trips is None or trip < int(trips)):
            results = self.body(body, [torch.tensor(trip), torch.tensor(True), *states])
            going, states = bool(results[0]), results[1:1 + len(states)]
            rows.append(results[1 + len(states):])
            trip += 1
        return states + [torch.stack(parts) for parts in zip(*rows)]

    def run_scan(self, attributes, *operands):
        if self.opsets.get("", 1) < 9 or any(attributes.get("scan_" + what, []) and any(attributes["scan_" + what])
               for what in ("input_axes", "output_axes", "output_directions")):
            raise NotImplementedError("Scan but along the first axis, forwards")
        scanned = attributes["num_scan_inputs"]
        states, rows = list(operands[:len(operands) - scanned]), operands[len(operands) - scanned:]
        backwards = attributes.get("scan_input_directions", [0] * scanned)
        found = []
        for trip in range(rows[0].shape[0]):
            results = self.body(attributes["body"], [*states, *(row[-1 - trip if turned else trip] for row, turned in zip(rows, backwards))])
            states = results[:len(states)]
            found.append(results[len(states):])
        return states + [torch.stack(parts) for parts in zip(*found)]


def nodes_in(nodes):
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from nodes_in(graph.node)


def opsets_of(model):
    return {"" if entry.domain in ONNX else entry.domain: entry.version for entry in model.opset_import}


def unknown_operators(model):
    """Operators of the file that `evaluate` does not know, sorted."""
    functions, opsets = {(function.domain, function.name) for function in model.functions}, opsets_of(model)
    nodes = [*nodes_in(model.graph.node), *(node for function in model.functions for node in nodes_in(function.node))]
    return sorted({node.op_type for node in nodes if (node.domain, node.op_type) not in functions
                   and not (node.domain in ONNX and node.op_type in (*OPERATORS, *CONTROL)) and not has_definition(schema_of(node, opsets))})


def evaluate(model, inputs, initializers):
    """Graph outputs by name. `initializers` replace those of the same names: leaves that ask for a gradient."""
    values = {proto.name: tensor_of(proto) for proto in model.graph.initializer}
    values.update(initializers)
    values.update({name: widen(tensor) for name, tensor in inputs.items()})
    evaluation = Evaluation(opsets_of(model), {(function.domain, function.name): function for function in model.functions}, values)
    evaluation.run(model.graph.node)
    lacking = [output.name for output in model.graph.output if output.name not in evaluation.values]
    if lacking:
        raise NotImplementedError(f"results beyond the first that PyTorch's exports do not ask for: {', '.join(lacking)}")
    return {output.name: evaluation.values[output.name] for output in model.graph.output}


def load(path):
    return onnx.load(path)
