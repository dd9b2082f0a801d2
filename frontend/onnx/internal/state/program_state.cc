#include "frontend/onnx/internal/state/program_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "frontend/onnx/internal/model/module_paths.h"
#include "frontend/onnx/internal/state/recurrent_state.h"
#include "frontend/onnx/internal/state/unweighted.h"
#include "frontend/onnx/internal/translate/node.h"
#include "ir/graph/constant.h"
#include "ir/match/match.h"
#include "ir/state/name_source.h"
#include "ir/state/state.h"

namespace rannc::frontend {

namespace {

using ONNX_NAMESPACE::NodeProto;

/// Returns the stored tensor that a value is, looking through identities. Invalid if it is none.
ValueId stored(const ir::Graph& graph, ValueId value) {
  constexpr ir::Capture kTensor{0};
  static const ir::Pattern kStored = ir::through("identity", ir::of_kind(ir::ValueKind::kConstant, kTensor));
  const auto found = ir::match(graph, value, kStored);
  return found ? (*found)[kTensor] : ValueId();
}

/// Whether torch.onnx.export with dynamo=False generated the name, in any version.
bool is_unnamed(std::string_view name) {
  const ir::NameSource source = ir::source_of_name(name);
  return source == ir::NameSource::kFolded || source == ir::NameSource::kNumber;
}

/// Returns the state name of a value. The result of a forwarding node (`/norm/Identity`) has the name of its operand.
std::string name_of_state(const ir::Graph& graph, ValueId value) {
  const std::string_view name = graph.value(value).name;
  return std::string(!name.starts_with('/') ? name : graph.value(stored(graph, value)).name);
}

std::string joined(const std::string& module, std::string_view name) {
  return module.empty() ? std::string(name) : module + "." + std::string(name);
}

size_t rank_of(const ir::Graph& graph, ValueId value) {
  const auto& shape = graph.type(value).shape;
  return shape ? shape->size() : 0;
}

/// Whether exactly one extent differs from 1.
bool is_vector(const ir::Graph& graph, ValueId value) {
  const auto& shape = graph.type(value).shape;
  return shape &&
         std::count_if(shape->begin(), shape->end(), [](const ir::Dim& dim) { return !(dim == ir::Dim(1)); }) == 1;
}

bool is_static(const ir::Graph& graph, ValueId value) {
  const auto& shape = graph.type(value).shape;
  return shape && std::all_of(shape->begin(), shape->end(), [](const ir::Dim& dim) { return dim.is_constant(); });
}

bool is_transposed(const NodeProto& node) {
  return std::any_of(node.attribute().begin(), node.attribute().end(),
                     [](const auto& attribute) { return attribute.name() == "transB" && attribute.i() != 0; });
}

/// Relates an argument of a call to an operand of a node created from it.
struct PlaceOfState {
  std::string_view call, op;  ///< empty op: any other
  size_t operand, argument;
  bool flat = false;  ///< the parameter has one axis
};
constexpr PlaceOfState kPlaces[] = {
    {"aten.addmm", "Gemm", 1, 2},
    {"aten.addmm", "Gemm", 2, 0},
    {"aten.layer_norm", "LayerNormalization", 1, 2},
    {"aten.layer_norm", "LayerNormalization", 2, 3},
    {"aten.native_layer_norm", "LayerNormalization", 1, 2},
    {"aten.native_layer_norm", "LayerNormalization", 2, 3},
    {"aten.rms_norm", "RMSNormalization", 1, 2},
    {"aten.group_norm", "GroupNormalization", 1, 2, true},
    {"aten.group_norm", "GroupNormalization", 2, 3, true},
    {"aten.group_norm", "Mul", 1, 2, true},
    {"aten.group_norm", "Add", 1, 3, true},
    {"aten.instance_norm", "InstanceNormalization", 1, 1, true},
    {"aten.instance_norm", "InstanceNormalization", 2, 2, true},
    {"aten.instance_norm", "Mul", 1, 1, true},
    {"aten.instance_norm", "Add", 1, 2, true},
    {"aten.embedding", "Gather", 0, 0},
    {"aten.prelu", "PRelu", 1, 1, true},
};

/// Convolutions and batch normalizations take their operands in the order of the call's arguments.
bool keeps_order(const TracedCall& call, const std::string& op) {
  if (op == "Conv" || op == "ConvTranspose") return call.target.find("conv") != std::string_view::npos;
  return op == "BatchNormalization" && call.target.find("batch_norm") != std::string_view::npos;
}

bool is_recurrent(const std::string& op) { return op == "LSTM" || op == "GRU" || op == "RNN"; }

/// Whether a linear module or an embedding may contain the operator, apart from shape arithmetic.
bool is_of_leaf(const std::string& op) {
  constexpr std::array kOps = {"Gather", "MatMul", "Gemm", "Add", "Transpose", "Identity", "Constant"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

}  // namespace

void ProgramState::list(const ONNX_NAMESPACE::GraphProto& graph) {
  listed_ = listed_state(graph);
  notes_.stored.listed = listed_.kinds;
  notes_.stored.transient = listed_.transient;
}

void ProgramState::store(const std::string& name) {
  if (is_unnamed(name)) return;
  for (std::string owner = ir::module_of(name); !owner.empty() && owners_.insert(owner).second;)
    owner = ir::module_of(owner);
}

/// Returns the module for a path. If a module `layers` contains a module `layers`, parts of both have the path
/// `layers.0`; the names of stored tensors resolve the ambiguity.
std::string ProgramState::module_at(const std::string& path) const {
  std::string module, before;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const bool number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    const std::string once = joined(module, part), twice = joined(joined(module, before), part);
    module = number && !before.empty() && !owners_.contains(once) && owners_.contains(twice) ? twice : once;
    before = part;
    begin = end + 1;
  }
  return module;
}

/// Returns the listed state tensor that is an argument of a call. Null if the argument is none.
const std::string* ProgramState::target(const TracedCall& call, size_t argument) const {
  if (argument >= call.arguments.size() || !call.arguments[argument].starts_with('%')) return nullptr;
  const auto found = listed_.targets.find(call.arguments[argument].substr(1));
  return found == listed_.targets.end() ? nullptr : &found->second;
}

bool ProgramState::names(const TracedCall& call, std::string_view tensor) const {
  const auto values = call.values();
  return std::any_of(values.begin(), values.end(), [&](std::string_view value) {
    const auto found = listed_.targets.find(value);
    return found != listed_.targets.end() && found->second == tensor;
  });
}

std::optional<ProgramState::Claim> ProgramState::claim_by_place(const ir::Graph& graph, ValueId value, size_t operand,
                                                                const Reader& reader) const {
  using Form = Claim::Form;
  const TracedCall& call = *reader.call;
  const std::string& op = reader.node.op_type();
  const auto claim = [&](size_t argument, Form form) -> std::optional<Claim> {
    const std::string* const name = target(call, argument);
    return name ? std::optional(Claim{*name, form}) : std::nullopt;
  };
  if (call.is("aten.linear")) {
    if (rank_of(graph, value) < 2) return claim(2, Form::kSame);
    const bool columns = op == "MatMul" || (op == "Gemm" && !is_transposed(reader.node));
    return claim(1, columns ? Form::kTransposed : Form::kSame);
  }
  if (keeps_order(call, op)) return claim(operand, Form::kSame);
  for (const PlaceOfState& place : kPlaces) {
    const bool either = place.op == "Mul" || place.op == "Add";  // the exporter's order is not the call's
    if (call.is(place.call) && op == place.op && (either || operand == place.operand))
      return claim(place.argument, place.flat ? Form::kFlat : Form::kSame);
  }
  return std::nullopt;
}

/// Returns a claim per operand. Positions are matched first, then names in the file. If exactly one tensor and one
/// argument remain, they are matched.
std::vector<std::optional<ProgramState::Claim>> ProgramState::claims(const ir::Graph& graph,
                                                                     std::span<const ValueId> operands,
                                                                     const Reader& reader) const {
  std::vector<std::optional<Claim>> claims(operands.size());
  if (!reader.call || listed_.targets.empty()) return claims;
  std::set<std::string> left;
  for (const std::string_view value : reader.call->values()) {
    const auto found = listed_.targets.find(value);
    if (found != listed_.targets.end()) left.insert(found->second);
  }
  if (left.empty()) return claims;
  std::vector<size_t> open;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].valid() || !ir::is_float(graph.type(operands[i]).dtype) || !stored(graph, operands[i]).valid())
      continue;
    const std::string name(graph.value(operands[i]).name);
    claims[i] = claim_by_place(graph, operands[i], i, reader);
    if (!claims[i] && left.contains(name)) claims[i] = Claim{name};
    if (claims[i] && claims[i]->name == name) claims[i]->form = Claim::Form::kSame;
    if (claims[i])
      left.erase(claims[i]->name);
    else
      open.push_back(i);
  }
  const bool placed = reader.call->is("aten.linear") || keeps_order(*reader.call, reader.node.op_type());
  if (open.size() == 1 && left.size() == 1 && !placed)
    claims[open[0]] =
        Claim{*left.begin(), is_single(graph, operands[open[0]]) ? Claim::Form::kUnknown : Claim::Form::kSame};
  return claims;
}

/// `derived`: the exporter computed the stored tensor from the parameter. Otherwise the stored tensor is another one
/// with equal values and the same form.
void ProgramState::hold(const ir::Graph& graph, ValueId value, const Claim& claim, bool derived) {
  using Form = Claim::Form;
  const ValueId root = stored(graph, value);
  // If the file also contains the parameter, this is a copy of it.
  if (graph.find(claim.name).valid() || !is_static(graph, root)) return;
  if (derived && claim.form == Form::kUnknown) return;
  std::vector<int64_t> axes = ir::whole(graph, root).axes;
  if (derived && claim.form == Form::kTransposed) {
    if (axes.size() != 2) return;
    std::swap(axes[0], axes[1]);
  }
  ir::StateTensor tensor = ir::state_of(graph, claim.name, root, std::move(axes));
  if (derived && claim.form == Form::kFlat) tensor.shape.assign(1, ir::static_count(graph.type(root)).value_or(0));
  held_.try_emplace(tensor.name, std::move(tensor));
}

void ProgramState::note_claim(const ir::Graph& graph, ValueId value, const Claim& claim, ir::Reading& reading) {
  reading.state = {claim.name};
  note_named(claim.name);
  const bool derived = !listed_.kinds.contains(std::string(graph.value(stored(graph, value)).name));
  hold(graph, value, claim, derived);
}

/// Identifies parameters of recurrent modules by the module's path: `lstm.weight_ih_l0`.
bool ProgramState::note_recurrent(const ir::Graph& graph, ValueId value, const Reader& reader, ir::Reading& reading) {
  const auto operand = reading.operand;
  if (!is_recurrent(reader.node.op_type()) || operand < 1 || operand > 3) return false;
  if (reading.module == reading.node) return false;
  const ValueId root = stored(graph, value);
  auto& layers = layers_[reading.module];
  // Operands come in order, weights first. A layer that is called again reads the same weights.
  const size_t layer = operand == 1 ? layers.try_emplace(root, layers.size()).first->second : layers.size() - 1;
  for (ir::StateTensor& tensor : recurrent_state(graph, reader.node.op_type(), root, operand, reading.module, layer)) {
    if (!listed_.kinds.empty() && !listed_.kinds.contains(tensor.name)) return false;
    reading.state.push_back(tensor.name);
    held_.try_emplace(tensor.name, std::move(tensor));
  }
  return !reading.state.empty();
}

/// Returns the bias that a node's call reads and the node does not, or null: torch.onnx.export with dynamo=True omits a
/// zero bias of a linear module or convolution.
const std::string* ProgramState::omitted_bias(std::span<const ValueId> operands, const NodeProto& node,
                                              const TracedCall& call) const {
  constexpr size_t kBias = 2;
  if (operands.size() > kBias && operands[kBias].valid()) return nullptr;
  const bool product = node.op_type() == "Gemm" && (call.is("aten.linear") || call.is("aten.addmm"));
  if (!product && !keeps_order(call, node.op_type())) return nullptr;
  return node.op_type() == "BatchNormalization" ? nullptr : target(call, call.is("aten.addmm") ? 0 : kBias);
}

void ProgramState::note_alias(const ir::Graph& graph, ValueId value, const Reader& reader, const ir::Reading& reading) {
  const std::string& op = reader.node.op_type();
  const bool table = op == "Gather" && reading.operand == 0;
  const bool weight = (op == "MatMul" || op == "Gemm" || op == "Transpose") && rank_of(graph, value) == 2;
  const bool bias = (op == "Add" || op == "Gemm") && rank_of(graph, value) == 1;
  if (!table && !weight && !bias) return;
  const ValueId root = stored(graph, value);
  if (is_unnamed(graph.value(root).name) || !is_static(graph, root)) return;
  const std::string_view what = bias ? "bias" : "weight";
  // A tensor of the module, or of a part of it, already has its name there.
  const std::string owner = ir::module_of(reading.state[0]);
  const bool inside = owner == reading.module || owner.starts_with(reading.module + ".") || reading.module.empty();
  if (!inside) aliases_.push_back({reading.state[0], reading.module, std::string(what)});
}

void ProgramState::note_unnamed(const ir::Graph& graph, ValueId value, const Reader& reader,
                                const std::string& stored) {
  using Form = Claim::Form;
  const std::string& op = reader.node.op_type();
  const size_t reading = notes_.stored.readings[stored].size() - 1;
  const bool second = notes_.stored.readings[stored].back().operand == 1;
  const std::string made = reader.prefix + reader.node.output(0);
  if (second && rank_of(graph, value) == 2 && (op == "MatMul" || op == "Gemm")) {
    const bool has_bias = op == "Gemm" && reader.node.input_size() > 2;
    const std::string bias = has_bias ? reader.prefix + reader.node.input(2) : "";
    unnamed_.push_back(
        {value, stored, reading, made, bias, "weight", is_transposed(reader.node) ? Form::kSame : Form::kTransposed});
  } else if ((op == "Mul" || op == "Add") && is_vector(graph, value)) {  // of decomposed normalizations
    unnamed_.push_back({value, stored, reading, "", "", op == "Mul" ? "weight" : "bias", Form::kFlat});
  }
}

/// Whether a node reads a parameter that it does not name: it has no call, as the Split of `chunk`, or its call names a
/// view, `%slice_1` of `p[:]`, for which the file has no node.
bool ProgramState::reads_view(const std::string& name, const std::vector<std::optional<Claim>>& claimed,
                              const Reader& reader) const {
  const auto own = listed_.kinds.find(name);
  if (own == listed_.kinds.end() || own->second != ir::ValueKind::kParameter) return false;
  if (!reader.call) return true;
  const auto values = reader.call->values();
  return std::all_of(values.begin(), values.end(), [&](std::string_view value) {
    const auto found = listed_.targets.find(value);
    if (found == listed_.targets.end()) return true;
    return std::any_of(claimed.begin(), claimed.end(),
                       [&](const auto& claim) { return claim && claim->name == found->second; });
  });
}

/// Bodies share what they read with each other, so that merged parameters cannot be separated there.
void ProgramState::note_in_body(const std::string& name, const std::optional<Claim>& claim, ir::Reading& reading) {
  const auto own = listed_.kinds.find(name);
  if (!claim || own == listed_.kinds.end() || own->second != ir::ValueKind::kParameter) return;
  note_named(claim->name);
  reading.state = {name};
  if (claim->name != name) notes_.stored.unclear[name].insert(claim->name);
}

/// Whether a normalization reads numbers of its translation, which may have been merged with a parameter: it has no
/// weights, or is a group normalization that is written out, with factors of 1 for the groups.
bool ProgramState::reads_numbers(const ir::Graph& graph, ValueId value, size_t operand, const Reader& reader) const {
  if (!reader.call || operand == 0) return false;
  const bool grouped = reader.node.op_type() == "InstanceNormalization" &&
                       (reader.call->is("aten.group_norm") || reader.call->is("aten.native_group_norm"));
  return grouped || is_unweighted(graph, stored(graph, value), operand, *reader.call);
}

void ProgramState::read(const ir::Graph& graph, std::span<const ValueId> operands, const Reader& reader) {
  const std::string& op = reader.node.op_type();
  if (op == "Identity") return store(reader.node.output(0));
  const std::string module = reader.module.empty() ? module_at(module_path(reader.node)) : reader.module;
  const bool has_path = module != reader.label && !reader.in_body;
  if (has_path) {
    modules_.insert(module);
    if (!is_of_leaf(op)) larger_.insert(module);
  }
  const auto claimed = claims(graph, operands, reader);
  for (size_t i = 0; i < operands.size(); ++i) {
    const ValueId value = operands[i];
    if (!value.valid() || !ir::is_float(graph.type(value).dtype) || !stored(graph, value).valid()) continue;
    const std::string name(graph.value(value).name);
    auto& readings = notes_.stored.readings[name];
    ir::Reading& reading = readings.emplace_back(ir::Reading{reader.label, static_cast<uint32_t>(i), module, {}});
    if (reader.in_body) {
      note_in_body(name, claimed[i], reading);
    } else if (listed_.kinds.contains(name) && reads_numbers(graph, value, i, reader)) {
      reading.state = {fmt::format("{}.{}", reader.label, i)};
      notes_.stored.literals.insert(reading.state[0]);
    } else if (claimed[i]) {
      note_claim(graph, value, *claimed[i], reading);
    } else if (reads_view(name, claimed, reader)) {
      unclear_.push_back({name, readings.size() - 1});
    } else if (note_recurrent(graph, value, reader, reading)) {
      continue;
    } else if (const std::string own = name_of_state(graph, value); listed_.targets.empty() && !is_unnamed(own)) {
      reading.state = {own};
    } else if (listed_.targets.empty() ? has_path : !reader.call) {
      note_unnamed(graph, value, reader, name);
    }
    if (has_path && reading.state.size() == 1) note_alias(graph, value, reader, reading);
  }
  const std::string* const bias = reader.call ? omitted_bias(operands, reader.node, *reader.call) : nullptr;
  if (bias == nullptr) return;
  note_named(*bias);
  if (!reader.in_body) notes_.stored.dropped_biases[reader.label] = *bias;
}

/// Returns the called module. The second call of module `query` has the path `query_1`. That path is a module of its
/// own if stored tensors are named after it or if there is no first call.
std::string ProgramState::module_called(const std::string& path) const {
  const size_t mark = path.find_last_not_of("0123456789");
  if (mark == std::string::npos || mark == 0 || mark + 1 == path.size() || path[mark] != '_') return path;
  const std::string base = path.substr(0, mark);
  return modules_.contains(base) && !owners_.contains(path) ? base : path;
}

/// Derives the name of a weight from the bias added to the product: `in_proj_weight` from `in_proj_bias`. The bias must
/// belong to the module of the product or to a part of it. Otherwise the result is empty.
std::string ProgramState::name_by_bias(const ir::Graph& graph, const Unnamed& unnamed,
                                       const std::string& module) const {
  constexpr std::string_view kBias = "bias";
  constexpr ir::Capture kAdded{0};
  static const ir::Pattern kSum = ir::commutative(ir::op("add", ir::any(), ir::any(kAdded)));
  std::string bias = unnamed.bias;
  const ValueId product = graph.find(unnamed.product);
  if (bias.empty() && product.valid()) {
    const auto uses = graph.uses(product);
    if (uses.size() != 1 || !ir::match(graph, uses[0].task, kSum)) return "";
    const auto operands = graph.inputs(uses[0].task);
    const ValueId added = operands[operands[0] == product ? 1 : 0];
    if (stored(graph, added).valid() && rank_of(graph, added) == 1) bias = graph.value(added).name;
  }
  if (!bias.ends_with(kBias) || is_unnamed(bias)) return "";
  const std::string owner = ir::module_of(bias);
  const std::string base = module.substr(0, module.find_last_not_of("0123456789_") + 1);  // `query` of `query_1`
  const bool inside = owner == module || owner == base || owner.starts_with(module + ".") || module.empty();
  return inside ? bias.substr(0, bias.size() - kBias.size()) + "weight" : "";
}

/// Names unnamed parameters by their module. Several products of one call that read different tensors cannot be
/// distinguished and get no name.
void ProgramState::name_by_place(const ir::Graph& graph) {
  std::map<std::string, std::set<std::string>> places;  // stored tensors by path and weight or bias
  std::vector<std::string> names;
  const auto reading_of = [&](const Unnamed& each) -> ir::Reading& {
    return notes_.stored.readings[each.stored][each.reading];
  };
  for (const Unnamed& each : unnamed_) {
    const ir::Reading& reading = reading_of(each);
    const std::string path = reading.module == reading.node ? "" : reading.module;
    names.push_back(each.what == "weight" ? name_by_bias(graph, each, path) : "");
    if (!listed_.kinds.empty()) {
      if (!listed_.kinds.contains(names.back())) names.back().clear();
    } else if (names.back().empty()) {
      places[joined(path, each.what)].insert(each.stored);
    }
  }
  for (size_t i = 0; i < unnamed_.size(); ++i) {
    const Unnamed& each = unnamed_[i];
    ir::Reading& reading = reading_of(each);
    std::string name = names[i];
    const auto place = places.find(joined(reading.module, each.what));
    if (name.empty() && place != places.end() && place->second.size() == 1) {
      name = joined(module_called(reading.module), each.what);
      const auto held = held_.find(name);  // if another tensor has the name, this is no second call
      if (held != held_.end() && held->second.parts[0].value != stored(graph, each.value))
        name = joined(reading.module, each.what);
    }
    if (name.empty() || !stored(graph, each.value).valid()) continue;
    reading.state = {name};
    hold(graph, each.value, {name, each.form}, true);
  }
}

/// Returns the placement of a state tensor, or nothing if no stored tensor contains it.
std::optional<ir::StateTensor> ProgramState::tensor_of(const ir::Graph& graph, const std::string& name) const {
  const auto held = held_.find(name);
  if (held != held_.end()) return held->second;
  const ValueId own = graph.find(name);
  if (!own.valid() || !is_static(graph, own)) return std::nullopt;
  return ir::state_of(graph, name, own, ir::whole(graph, own).axes);
}

/// Records that `name` and `other` are the same tensor. Returns false if the file has a tensor `name`, or none `other`.
bool ProgramState::name_also(const ir::Graph& graph, const std::string& name, const std::string& other) {
  if (graph.find(name).valid()) return false;
  std::optional<ir::StateTensor> tensor = tensor_of(graph, other);
  if (!tensor) return false;
  tensor->name = name;
  return held_.try_emplace(name, *std::move(tensor)).second;
}

void ProgramState::add_aliases(const ir::Graph& graph) {
  for (const Alias& alias : aliases_) {
    const std::string module = module_called(alias.module), name = joined(module, alias.what);
    const auto inner = modules_.lower_bound(module + ".");
    const bool has_parts = inner != modules_.end() && inner->starts_with(module + ".");
    const bool known = listed_.kinds.empty() ? !larger_.contains(module) : listed_.kinds.contains(name);
    if (!has_parts && known && name_also(graph, name, alias.state)) tied_.insert(alias.state);
  }
}

/// Returns the modules whose nodes read unidentified numbers, which may be derived from an unnamed parameter.
std::set<std::string> ProgramState::modules_reading_unknown(const ir::Graph& graph) const {
  std::set<std::string> modules;
  for (const auto& [name, readings] : notes_.stored.readings) {
    const ValueId value = graph.find(name);
    if (!value.valid() || listed_.kinds.contains(name) || is_single(graph, value)) continue;
    if (notes_.stored.literals.contains(name)) continue;
    for (const ir::Reading& reading : readings) {
      if (reading.state.empty()) modules.insert(reading.module);
    }
  }
  return modules;
}

/// Whether no node reads the weight or the bias of a layer.
bool ProgramState::is_of_unused_layer(const std::string& name, const std::set<std::string>& unread) const {
  const std::string word = ir::last_word(name);
  if (word != "weight" && word != "bias") return false;
  return unread.contains(joined(ir::module_of(name), word == "weight" ? "bias" : "weight"));
}

/// Names listed parameters that no node reads. Such a parameter is another name of a tied tensor, or it is unused and
/// its values do not matter. It is assumed tied if only one tensor matches: one that already has several names, or one
/// of a direct part of its module, the last if there are several: a head computes its result there.
void ProgramState::name_unread(const ir::Graph& graph) {
  const std::set<std::string> unknown = modules_reading_unknown(graph);
  const std::set<std::string> open = unread(graph);
  for (const std::string& name : open) {
    if (unknown.contains(ir::module_of(name)) || unknown.contains(ir::module_of(ir::module_of(name)))) continue;
    if (is_of_unused_layer(name, open)) continue;
    std::set<std::string> tied;
    std::map<size_t, std::string> parts;  // in the order of readers
    for (const auto& [other, place] : named_by_calls_) {
      if (ir::last_word(other) != ir::last_word(name)) continue;
      if (tied_.contains(other)) tied.insert(other);
      if (ir::module_of(ir::module_of(other)) == ir::module_of(name) && !ir::module_of(name).empty())
        parts.emplace(place, other);
    }
    if (tied.size() > 1 || (tied.empty() && parts.empty())) continue;
    const std::string& other = tied.empty() ? parts.rbegin()->second : *tied.begin();
    if (!name_also(graph, name, other)) continue;
    notes_.open.push_back({{},
                           "parameter '" + name +
                               "' of the exported program is read by no node: assumed to be another name of '" + other +
                               "'"});
  }
}

void ProgramState::finish(ir::Graph& graph, const std::vector<MergedValue>& merged,
                          const std::set<std::string>& omitted) {
  name_by_place(graph);
  add_aliases(graph);
  name_unclear(graph);
  note_merged(graph, merged);
  name_merged(graph);
  name_looked_up(graph);
  name_reshaped(graph);
  name_unread(graph);
  note_omitted(graph, omitted);
  for (auto& [name, readings] : notes_.stored.readings) {
    for (ir::Reading& reading : readings) reading.module = module_called(reading.module);
  }
  for (auto& [name, tensor] : held_) graph.add_state(std::move(tensor));
}

}  // namespace rannc::frontend
