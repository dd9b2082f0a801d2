#include "frontend/onnx/internal/file/stored_changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/onnx/internal/file/stored_places.h"
#include "frontend/onnx/internal/file/stored_views.h"
#include "ir/match/match.h"
#include "ir/state/state.h"
#include "ir/state/state_bytes.h"

namespace rannc::frontend {

namespace {

using Bytes = std::vector<std::byte>;

bool same_type(const ir::ValueType& a, const ir::ValueType& b) { return a.dtype == b.dtype && a.shape == b.shape; }

Result<bool> same_bytes(const ir::TensorData& a, const ir::TensorData& b) {
  if (a == b) return true;
  if (a.size() != b.size() || !a.present() || !b.present()) return false;
  RANNC_ASSIGN(const Bytes left, a.read());
  RANNC_ASSIGN(const Bytes right, b.read());
  return left == right;
}

/// A stored value as an operand of a node.
struct Source {
  ValueId value;
  bool transposed = false;
  ValueId view = {};  ///< view of the value; invalid: the whole value, possibly transposed
  auto operator<=>(const Source&) const = default;
};

class Changes {
 public:
  Changes(const ModelCopy& copy, StoredPlaces places, const std::string& file)
      : graph_(copy.graph), before_(copy.before), places_(std::move(places)), file_(file) {
    for (const TaskId task : graph_.tasks()) {
      const std::string node = graph_.location(task).node;
      for (const ValueId operand : graph_.inputs(task)) {
        if (const auto source = source_of(operand); source && !node.empty()) sources_[node].insert(*source);
      }
    }
  }

  Result<StoredChanges> find() {
    for (size_t node = 0; node < places_.nodes.size(); ++node) {
      for (size_t i = 0; i < places_.nodes[node].inputs.size(); ++i) RANNC_TRY(read(node, static_cast<int>(i)));
    }
    for (const ValueId value : graph_.values()) {
      if (is_stored(graph_.kind(value))) RANNC_TRY(place(value));
    }
    for (const auto& [name, tensor] : places_.initializers) RANNC_TRY(settle(name, tensor));
    drop_renamings();
    if (lost_.empty()) return std::move(changes_);
    return error({file_, 0, 0, {}}, fmt::format("{} changed tensors are in places where the file can't hold them: {}",
                                                lost_.size(), fmt::join(lost_, ", ")));
  }

 private:
  struct Reading {
    size_t node;
    int operand;
    Source source;
  };

  /// Resolves an operand to its stored value. Passes replace a transposed copy by a core.permute that comes from no
  /// node.
  std::optional<Source> source_of(ValueId operand) const {
    static const ir::Pattern kTurned = ir::op("permute");
    if (!operand.valid()) return std::nullopt;
    if (is_stored(graph_.kind(operand))) return Source{operand, false};
    const auto stored = stored_behind(graph_, operand);
    if (!stored) return std::nullopt;
    const TaskId maker = graph_.producer(operand);
    const auto& shape = graph_.type(*stored).shape;
    const bool turned = graph_.inputs(maker)[0] == *stored && ir::match(graph_, maker, kTurned);
    if (turned && shape && shape->size() == 2) return Source{*stored, true};
    return Source{*stored, false, operand};
  }

  const ir::TensorData& now(ValueId value) const { return graph_.value(value).data; }
  const ir::TensorData& before(ValueId value) const {
    const auto found = before_.find(value);
    return found == before_.end() ? none_ : found->second;
  }
  enum class When : uint8_t { kBefore, kNow };
  Result<ir::TensorData> data(const Source& source, When when) const {
    const ir::TensorData& own = when == When::kNow ? now(source.value) : before(source.value);
    if (source.view.valid()) return viewed(graph_, source.view, own);
    if (!source.transposed || !own.present()) return own;
    const ir::StateTensor turned = ir::state_of(graph_, "", source.value, {1, 0});
    RANNC_ASSIGN(Bytes bytes, ir::state_bytes(graph_, turned, [&](ValueId) { return own.read(); }));
    return ir::TensorData::in_memory(std::move(bytes));
  }
  ir::ValueType type(const Source& source) const {
    ir::ValueType found = graph_.type(source.view.valid() ? source.view : source.value);
    if (source.transposed) std::swap((*found.shape)[0], (*found.shape)[1]);
    return found;
  }
  Result<bool> was(const Source& source, const Tensor& tensor) const {
    if (!same_type(type(source), tensor.type)) return false;
    RANNC_ASSIGN(const ir::TensorData bytes, data(source, When::kBefore));
    return same_bytes(bytes, tensor.data);
  }
  Result<bool> is_changed(ValueId value) const {
    RANNC_ASSIGN(const bool same, same_bytes(now(value), before(value)));
    return !same;
  }

  /// The stored value with the name of an initializer.
  std::optional<Source> named(const std::string& initializer, const Tensor& tensor) const {
    const ValueId value = graph_.find(initializer);
    if (!value.valid() || !is_stored(graph_.kind(value)) || !same_type(graph_.type(value), tensor.type))
      return std::nullopt;
    return Source{value, false};
  }

  /// Finds the current stored value of a node's operand.
  Result<void> read(size_t node, int operand) {
    const NodePlace& place = places_.nodes[node];
    const std::string& name = places_.origin(place.inputs[static_cast<size_t>(operand)]);
    const auto tensor = places_.initializers.find(name);
    if (tensor == places_.initializers.end() || !ir::is_float(tensor->second.type.dtype)) return {};
    const auto at = sources_.find(place.name);
    const auto own = named(name, tensor->second);
    if (at == sources_.end() || (own && at->second.contains(*own))) return {};
    std::vector<Source> found;
    for (const Source& source : at->second) {
      RANNC_ASSIGN(const bool fits, was(source, tensor->second));
      if (!fits) continue;
      found_.insert({source.value, place.name});
      if (!found.empty()) {
        RANNC_ASSIGN(const ir::TensorData first, data(found[0], When::kNow));
        RANNC_ASSIGN(const ir::TensorData other, data(source, When::kNow));
        RANNC_ASSIGN(const bool alike, same_bytes(first, other));
        if (!alike) lost_.push_back(fmt::format("{} (read twice by {})", graph_.value(source.value).name, place.name));
      }
      found.push_back(source);
    }
    if (!found.empty()) readings_[name].push_back({node, operand, found[0]});
    return {};
  }

  /// Checks that a changed value was found at every task that reads it.
  Result<void> place(ValueId value) {
    const std::string name(graph_.value(value).name);
    RANNC_ASSIGN(const bool changed, is_changed(value));
    const auto initializer = places_.initializers.find(name);
    if (initializer != places_.initializers.end() && named(name, initializer->second)) {
      if (changed && is_computed_on(graph_, value))
        lost_.push_back(fmt::format("{} (the exporter computed on it, and the file has the result)", name));
      return {};
    }
    if (places_.constants.contains(name)) {
      if (changed) changes_.tensors.emplace(name, now(value));
      return {};
    }
    RANNC_ASSIGN(const bool concerned, changed ? Result<bool>(true) : copied_of_changed(value));
    if (!concerned) return {};
    std::vector<std::string> readers;
    graph_.for_each_use(value, [&](const ir::Graph::Use& use) { readers.push_back(graph_.location(use.task).node); });
    if (readers.empty()) lost_.push_back(fmt::format("{} (read by nothing)", name));
    for (const std::string& reader : readers) {
      const bool tied = reader.empty();  // what it is put in the place of is a reading
      if (tied || found_.contains({value, reader})) continue;
      RANNC_ASSIGN(const bool literal, changed ? Result<bool>(false) : is_of_node(value, reader));
      if (literal || add_bias(value, reader)) continue;
      lost_.push_back(fmt::format("{} (read by {})", name, reader));
      break;
    }
    return {};
  }

  /// Whether a translator created the value, such as ones for an absent scale: no operand of the existing node was it.
  Result<bool> is_of_node(ValueId value, const std::string& reader) const {
    bool there = false;
    for (const NodePlace& node : places_.nodes) {
      if (node.name != reader) continue;
      there = true;
      for (const std::string& input : node.inputs) {
        const auto tensor = places_.initializers.find(places_.origin(input));
        if (tensor == places_.initializers.end()) continue;
        RANNC_ASSIGN(const bool held, was({value, false}, tensor->second));
        if (held) return false;
      }
    }
    return there;
  }

  /// Restores a zero bias that the exporter omitted.
  bool add_bias(ValueId value, const std::string& reader) {
    for (size_t node = 0; node < places_.nodes.size(); ++node) {
      if (places_.nodes[node].name != reader || !places_.nodes[node].takes_bias) continue;
      changes_.operands[{node, 2}] = added_name({value, false});
      return true;
    }
    return false;
  }

  /// Whether an initializer was equal to the value and is no longer.
  Result<bool> copied_of_changed(ValueId value) const {
    for (const auto& [initializer, tensor] : places_.initializers) {
      const auto own = named(initializer, tensor);
      if (!own) continue;
      RANNC_ASSIGN(const bool held, was({value, false}, tensor));
      RANNC_ASSIGN(const bool changed, held ? is_changed(own->value) : Result<bool>(false));
      if (changed) return true;
    }
    return false;
  }

  /// Determines the new data of an initializer and which of its readers need another initializer.
  Result<void> settle(const std::string& name, const Tensor& tensor) {
    const auto readings = readings_.find(name);
    std::optional<Source> own = named(name, tensor);
    if (!own && readings == readings_.end()) return check_unread(name, tensor);
    if (!own) own = readings->second[0].source;
    RANNC_ASSIGN(const ir::TensorData wanted, data(*own, When::kNow));
    RANNC_ASSIGN(const bool kept, same_bytes(wanted, tensor.data));
    if (!kept) changes_.tensors.emplace(name, wanted);
    if (readings == readings_.end()) return {};
    for (const Reading& reading : readings->second) {
      RANNC_ASSIGN(const ir::TensorData other, data(reading.source, When::kNow));
      RANNC_ASSIGN(const bool same, same_bytes(other, wanted));
      if (!same) changes_.operands[{reading.node, reading.operand}] = added_name(reading.source);
    }
    return {};
  }

  /// Checks an initializer without a value in the graph. It must not be a copy of a changed one.
  Result<void> check_unread(const std::string& name, const Tensor& tensor) {
    if (!ir::is_float(tensor.type.dtype)) return {};
    for (const ValueId value : graph_.values()) {
      if (!is_stored(graph_.kind(value))) continue;
      const bool flat = !graph_.type(value).shape || graph_.type(value).shape->size() != 2;
      for (const Source& source : {Source{value, false}, Source{value, true}}) {
        if (source.transposed && flat) continue;
        RANNC_ASSIGN(const bool copy, was(source, tensor));
        RANNC_ASSIGN(const bool changed, copy ? is_changed(value) : Result<bool>(false));
        if (!changed) continue;
        lost_.push_back(fmt::format("{} (a copy of {})", name, graph_.value(value).name));
        return {};
      }
    }
    return {};
  }

  const std::string& added_name(const Source& source) {
    const auto known = added_.find(source);
    if (known != added_.end()) return known->second;
    const std::string name(graph_.value(source.value).name);
    std::string found = name;
    for (int suffix = 1; !places_.names.insert(found).second; ++suffix) found = fmt::format("{}.{}", name, suffix);
    auto bytes = data(source, When::kNow);
    RANNC_CHECK(bytes.ok()) << "bytes that were read before: " << bytes.diagnostic().str();
    changes_.added.emplace(found, Tensor{type(source), *std::move(bytes)});
    return added_.emplace(source, std::move(found)).first->second;
  }

  /// Gives the name of an Identity's result to the initializer that all of its readers now use.
  void drop_renamings() {
    std::map<std::string, std::set<std::string>> instead;  // by the name that is read; "": unchanged
    for (size_t node = 0; node < places_.nodes.size(); ++node) {
      for (size_t i = 0; i < places_.nodes[node].inputs.size(); ++i) {
        const auto moved = changes_.operands.find({node, static_cast<int>(i)});
        instead[places_.nodes[node].inputs[i]].insert(moved == changes_.operands.end() ? "" : moved->second);
      }
    }
    std::set<std::string> taken;
    for (const auto& [name, others] : instead) {
      if (!places_.renamed.contains(name) || places_.outputs.contains(name)) continue;
      if (others.size() != 1 || others.begin()->empty() || !taken.insert(*others.begin()).second) continue;
      rename_added(*others.begin(), name);
      changes_.dropped.insert(name);
    }
  }

  void rename_added(const std::string& from, const std::string& to) {
    auto tensor = changes_.added.extract(from);
    tensor.key() = to;
    changes_.added.insert(std::move(tensor));
    for (auto& [operand, name] : changes_.operands) {
      if (name == from) name = to;
    }
  }

  const ir::Graph& graph_;
  const std::map<ValueId, ir::TensorData>& before_;
  const ir::TensorData none_;
  StoredPlaces places_;
  const std::string& file_;
  std::map<std::string, std::set<Source>> sources_;       ///< stored values read by tasks, by node
  std::map<std::string, std::vector<Reading>> readings_;  ///< readings of values not named after the initializer
  std::set<std::pair<ValueId, std::string>> found_;       ///< values with a node that has them as operand
  std::map<Source, std::string> added_;
  std::vector<std::string> lost_;
  StoredChanges changes_;
};

}  // namespace

Result<StoredChanges> stored_changes(const ModelFile& model, const std::string& file, const ModelCopy& copy) {
  RANNC_ASSIGN(StoredPlaces places, stored_places(model, file));
  RANNC_ASSIGN(StoredChanges changes, Changes(copy, std::move(places), file).find());
  if (changes.added.empty() || model.head().ir_version() >= 4) return changes;
  return error({file, 0, 0, {}},
               fmt::format("has version {} of the format, in which it can't hold tensors that are no inputs: {}",
                           model.head().ir_version(), changes.added.begin()->first));
}

}  // namespace rannc::frontend
