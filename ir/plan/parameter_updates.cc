#include "ir/plan/parameter_updates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>

#include "ir/base/name_pattern.h"
#include "ir/match/match.h"
#include "ir/op/op.h"
#include "ir/state/name_source.h"
#include "ir/state/state_bytes.h"
#include "ir/state/static_sizes.h"

namespace rannc::ir {

namespace {

using Sizes = std::vector<int64_t>;

int64_t product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// The elements of a box, if they are contiguous in memory.
std::optional<UpdateRun> contiguous(const StatePart& part, const Sizes& sizes) {
  size_t axis = sizes.size();
  int64_t inner = 1;
  while (axis > 0 && part.extent[axis - 1] == sizes[axis - 1]) inner *= sizes[--axis];
  UpdateRun run;
  int64_t stride = inner;
  for (size_t i = axis; i-- > 0; stride *= sizes[i]) {
    if (i + 1 < axis && part.extent[i] != 1) return std::nullopt;
    run.first += part.begin[i] * stride;
  }
  run.last = run.first + (axis > 0 ? part.extent[axis - 1] : 1) * inner;
  return run;
}

// How tasks use a stored parameter, seen through tasks that only rearrange it.
struct Uses {
  bool looked_up = false, multiplies = false, normalizes = false;
};

Uses uses_of(const Graph& graph, ValueId parameter) {
  static const Pattern kLookUp = op("gather"),
                       kRearranged = op({"permute", "identity", "cast", "reshape", "concat", "slice", "squeeze",
                                         "unsqueeze", "split"}),
                       kProduct = op({"linear", "matmul", "lstm", "gru", "rnn"}),
                       kNormalizes = op({"layer_norm", "group_norm", "batch_norm", "rms_norm"});
  Uses uses;
  std::vector<ValueId> left{parameter};
  while (!left.empty()) {
    const ValueId at = left.back();
    left.pop_back();
    graph.for_each_use(at, [&](Graph::Use use) {
      if (match(graph, use.task, kRearranged))
        left.insert(left.end(), graph.outputs(use.task).begin(), graph.outputs(use.task).end());
      uses.looked_up |= use.operand == 0 && match(graph, use.task, kLookUp).has_value();
      uses.multiplies |= match(graph, use.task, kProduct).has_value();
      uses.normalizes |= use.operand > 0 && match(graph, use.task, kNormalizes).has_value();
    });
  }
  return uses;
}

// Muon's copies (`runtime/train/whole_update.cc`): the gradient and wide momentum; then two matrices in bfloat16 and
// two products of the shorter side with itself; then the step, of which an addition to another type makes a copy.
int64_t muon_copies(const Sizes& shape, int64_t element_bytes, int64_t sum_bytes) {
  constexpr int64_t kBfloat16 = 2;
  const int64_t all = product(shape), shorter = std::min(shape[0], shape[1]);
  const int64_t first = all * (element_bytes < sum_bytes ? 2 * sum_bytes : sum_bytes + kBfloat16);
  const int64_t iteration = kBfloat16 * (2 * all + 2 * shorter * shorter);
  return std::max({first, iteration, all * (kBfloat16 + (element_bytes != kBfloat16 ? element_bytes : 0))});
}

// The step with the gradient, or of a vector its square too; then the step, added to narrower numbers in wide ones.
int64_t adafactor_copies(const Sizes& shape, int64_t element_bytes, int64_t sum_bytes) {
  return product(shape) * sum_bytes * (element_bytes < sum_bytes || shape.size() < 2 ? 3 : 2);
}

// Whether two boxes of one stored value share elements.
bool meet(const StatePart& a, const StatePart& b) {
  for (size_t axis = 0; axis < a.begin.size(); ++axis) {
    if (a.begin[axis] >= b.begin[axis] + b.extent[axis] || b.begin[axis] >= a.begin[axis] + a.extent[axis])
      return false;
  }
  return true;
}

// Whether a permuted box can be seen as rows of the shape without a copy: only axes of one element differ.
bool lies_as(const StatePart& part, const Sizes& shape) {
  Sizes box, rows;
  for (const int64_t axis : part.axes) {
    if (part.extent[static_cast<size_t>(axis)] != 1) box.push_back(part.extent[static_cast<size_t>(axis)]);
  }
  int64_t inner = 1;
  for (size_t axis = 1; axis < shape.size(); ++axis) inner *= shape[axis];
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t size = axis > 0 ? shape[axis] : inner > 0 ? product(part.extent) / inner : 0;
    if (size != 1) rows.push_back(size);
  }
  return box == rows;
}

}  // namespace

class ParameterUpdates::Builder {
 public:
  Builder(const Graph& graph, const UpdateRule& rule, const Grouping& grouping)
      : graph_(graph),
        rule_(rule),
        grouping_(grouping),
        matched_(grouping.groups.size()),
        lack_matrix_(grouping.groups.size()) {
    found_.stored_.resize(graph.value_count());
    found_.elements_.resize(graph.value_count());
    found_.averaged_ = grouping.average > 0;
  }

  Result<ParameterUpdates> build() {
    number_of({}, rule_);
    collect();
    for (size_t g = 0; g < lack_matrix_.size(); ++g) {
      const std::string* const kind = said_of(grouping_.groups[g], "optimizer");
      lack_matrix_[g] = kind != nullptr && *kind == str(OptimizerKind::kMuon);
    }
    for (Tensor& tensor : tensors_) RANNC_TRY(assign(tensor));
    for (size_t g = 0; g < matched_.size(); ++g) {
      if (!matched_[g]) return error(fmt::format("group '{}' matches no parameter; {}", pattern(g), examples()));
      if (lack_matrix_[g])
        return error(fmt::format("group '{}': no parameter that it matches has two axes, as muon needs", pattern(g)));
    }
    for (const auto& [value, held] : held_) RANNC_TRY(place(value, held));
    return std::move(found_);
  }

 private:
  // A tensor of the program; tied ones are one.
  struct Tensor {
    StateTensor state;
    std::vector<std::string> names;
    uint32_t group = 0;
    bool whole = false;
  };

  // What decides the rule of a parameter, besides numbers: groups keep their places when these change.
  struct Key {
    size_t group = 0;  // counted from 1; 0: none
    bool decays = true, is_matrix = true;
    auto operator<=>(const Key&) const = default;
  };

  // What a group says of a setting, null if nothing.
  static const std::string* said_of(const ParameterGroup& group, std::string_view setting) {
    for (const auto& [name, value] : group.settings) {
      if (name == setting) return &value;
    }
    return nullptr;
  }

  const std::string& pattern(size_t g) const { return grouping_.groups[g].pattern; }

  std::string examples() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < std::min<size_t>(tensors_.size(), 3); ++i) names.push_back(tensors_[i].names[0]);
    return names.empty() ? "the model has none"
                         : fmt::format("there {} '{}'{}", names.size() == 1 ? "is" : "are", fmt::join(names, "', '"),
                                       tensors_.size() > 3 ? " …" : "");
  }

  void collect() {
    std::map<Sizes, size_t> known;  // by place
    for (StateTensor& state : full_state(graph_).tensors) {
      Sizes place;
      for (const StatePart& part : state.parts) {
        if (graph_.kind(part.value) != ValueKind::kParameter) continue;
        place.push_back(static_cast<int64_t>(part.value.index()));
        place.insert(place.end(), part.begin.begin(), part.begin.end());
        place.insert(place.end(), part.extent.begin(), part.extent.end());
      }
      if (place.empty()) continue;
      const auto [at, is_new] = known.try_emplace(std::move(place), tensors_.size());
      if (is_new) tensors_.push_back({std::move(state), {}});
      tensors_[at->second].names.push_back(is_new ? tensors_[at->second].state.name : state.name);
    }
    for (size_t t = 0; t < tensors_.size(); ++t) {
      for (const StatePart& part : tensors_[t].state.parts) {
        if (graph_.kind(part.value) != ValueKind::kParameter) continue;
        auto& held = held_[part.value];
        if (held.empty() || held.back() != t) held.push_back(t);
      }
    }
  }

  Result<std::optional<size_t>> group_of(const Tensor& tensor) {
    std::optional<size_t> found;
    for (size_t g = 0; g < grouping_.groups.size(); ++g) {
      const auto fits = [&](const std::string& name) { return fits_pattern(name, pattern(g)); };
      if (std::none_of(tensor.names.begin(), tensor.names.end(), fits)) continue;
      matched_[g] = true;
      if (found)
        return error(fmt::format("parameter '{}' is in two groups, '{}' and '{}'", fmt::join(tensor.names, "' or '"),
                                 pattern(*found), pattern(g)));
      found = g;
    }
    return found;
  }

  Result<void> check(const UpdateRule& rule, size_t g) const {
    for (const auto& [name, value] : grouping_.groups[g].settings) {
      if (name == "optimizer" || has_setting(rule.kind, name)) continue;
      return error(fmt::format("group '{}': {} applies to {}, not to {}", pattern(g), name, optimizers_with(name),
                               str(rule.kind)));
    }
    if (rule.kind == OptimizerKind::kSgd && rule.nesterov && rule.momentum == 0)
      return error(fmt::format("group '{}': nesterov needs a momentum above 0", pattern(g)));
    return {};
  }

  Result<void> assign(Tensor& tensor) {
    RANNC_ASSIGN(const std::optional<size_t> group, group_of(tensor));
    UpdateRule rule = rule_;
    bool names_optimizer = false, names_decay = false;
    if (group) {
      const ParameterGroup& own = grouping_.groups[*group];
      rule = apply(own, rule);
      RANNC_TRY(check(rule, *group));
      names_optimizer = said_of(own, "optimizer") != nullptr;
      names_decay = said_of(own, "weight_decay") != nullptr;
    }
    Uses uses;
    const bool needs_uses = grouping_.no_decay || grouping_.no_decay_embeddings || rule.kind == OptimizerKind::kMuon;
    for (const StatePart& part : tensor.state.parts) {
      if (!needs_uses) break;
      const Uses own = uses_of(graph_, part.value);
      uses.looked_up |= own.looked_up;
      uses.multiplies |= own.multiplies;
      uses.normalizes |= own.normalizes;
    }
    const bool is_vector = tensor.state.shape.size() <= 1 || uses.normalizes || last_word(tensor.names[0]) == "bias";
    Key key{group ? *group + 1 : 0};
    key.decays =
        names_decay || !((grouping_.no_decay && is_vector) || (grouping_.no_decay_embeddings && uses.looked_up));
    if (!key.decays) rule.weight_decay = 0;
    tensor.whole = rule.kind == OptimizerKind::kMuon || rule.kind == OptimizerKind::kAdafactor;
    const bool is_matrix = tensor.state.shape.size() == 2 && (names_optimizer || (uses.multiplies && !uses.looked_up));
    if (group && is_matrix) lack_matrix_[*group] = false;
    if (rule.kind == OptimizerKind::kMuon && !is_matrix) {
      rule = with_kind(rule, OptimizerKind::kAdamW);
      tensor.whole = key.is_matrix = false;
    }
    tensor.group = number_of(key, rule);
    found_.groups_[tensor.group].tensors.push_back(tensor.names[0]);
    found_.groups_[tensor.group].elements += product(tensor.state.shape);
    return {};
  }

  uint32_t number_of(const Key& key, const UpdateRule& rule) {
    const auto [at, is_new] = numbers_.try_emplace(key, static_cast<uint32_t>(found_.groups_.size()));
    if (is_new) found_.groups_.push_back({rule, {}, 0});
    return at->second;
  }

  // Sets the updates of a stored parameter that holds these tensors.
  Result<void> place(ValueId value, const std::vector<size_t>& held) {
    const auto sizes = static_sizes(graph_.type(value));
    if (!sizes) return error(fmt::format("parameter %{} has no static shape", graph_.value(value).name));
    StoredUpdate& stored = found_.stored_[value.index()];
    const int64_t elements = found_.elements_[value.index()] = product(*sizes);
    const Tensor& first = tensors_[held[0]];
    const bool alike = std::all_of(held.begin(), held.end(),
                                   [&](size_t t) { return !tensors_[t].whole && tensors_[t].group == first.group; });
    if (alike) {
      stored.runs.push_back({first.group, 0, elements});
    } else {
      for (const size_t t : held) RANNC_TRY(place_part(value, *sizes, tensors_[t], stored));
      std::sort(stored.runs.begin(), stored.runs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      for (size_t i = 1; i < stored.runs.size(); ++i) {
        if (stored.runs[i].first < stored.runs[i - 1].last) return undivided(value, held);
      }
      if (overlap(value, held)) return undivided(value, held);
    }
    for (const UpdateRun& run : stored.runs) {
      for (const std::string_view state : element_states(found_.groups_[run.group].rule)) {
        if (std::find(stored.states.begin(), stored.states.end(), state) == stored.states.end())
          stored.states.push_back(state);
      }
    }
    return {};
  }

  bool overlap(ValueId value, const std::vector<size_t>& held) const {
    std::vector<const StatePart*> parts;
    for (const size_t t : held) {
      for (const StatePart& part : tensors_[t].state.parts) {
        if (part.value != value) continue;
        if (std::any_of(parts.begin(), parts.end(), [&](const StatePart* other) { return meet(part, *other); }))
          return true;
        parts.push_back(&part);
      }
    }
    return false;
  }

  Result<void> place_part(ValueId value, const Sizes& sizes, const Tensor& tensor, StoredUpdate& stored) {
    if (tensor.whole) {
      for (const StatePart& part : tensor.state.parts) {
        if (part.value == value && lies_as(part, tensor.state.shape)) continue;
        return error(fmt::format("parameter '{}' is stored in several tensors, or in another form; {} needs it in one",
                                 tensor.names[0], str(found_.groups_[tensor.group].rule.kind)));
      }
      stored.wholes.push_back({tensor.group, tensor.names[0], tensor.state.shape, tensor.state.parts});
      return {};
    }
    for (const StatePart& part : tensor.state.parts) {
      if (part.value != value) continue;
      auto run = contiguous(part, sizes);
      if (!run) return undivided(value, held_[value]);
      run->group = tensor.group;
      if (run->first < run->last) stored.runs.push_back(*run);
    }
    return {};
  }

  Diagnostic undivided(ValueId value, const std::vector<size_t>& held) const {
    std::vector<std::string> names;
    for (const size_t t : held) names.push_back(tensors_[t].names[0]);
    return error(fmt::format("the model stores '{}' in one tensor, %{}, in which they alternate: give them one group",
                             fmt::join(names, "', '"), graph_.value(value).name));
  }

  const Graph& graph_;
  const UpdateRule& rule_;
  const Grouping& grouping_;
  std::vector<bool> matched_, lack_matrix_;  // by group
  std::map<Key, uint32_t> numbers_;
  std::vector<Tensor> tensors_;
  std::map<ValueId, std::vector<size_t>> held_;  // tensors by stored parameter
  ParameterUpdates found_;
};

Result<ParameterUpdates> ParameterUpdates::of(const Graph& graph, const UpdateRule& rule, const Grouping& grouping) {
  return Builder(graph, rule, grouping).build();
}

Result<ParameterUpdates> ParameterUpdates::of(const Graph& graph, const PlanOptimizer& optimizer) {
  if (optimizer.name.empty()) return of(graph, UpdateRule(), optimizer.grouping);  // without state
  RANNC_TRY(parse_optimizer(optimizer.name));
  return of(graph, optimizer.rule(), optimizer.grouping);
}

int64_t ParameterUpdates::state_elements(ValueId parameter, int64_t first, int64_t last) const {
  const StoredUpdate& stored = of(parameter);
  int64_t elements = (last - first) * (static_cast<int64_t>(stored.states.size()) + (averaged_ ? 1 : 0));
  for (const WholeUpdate& whole : stored.wholes) {
    for (const WholeState& state : whole_states(groups_[whole.group].rule.kind, whole.shape))
      elements += product(state.shape);
  }
  return elements;
}

bool ParameterUpdates::has_states_of(const StoredUpdate& own, const ParameterUpdates& other,
                                     const StoredUpdate& its) const {
  const auto rule = [](const ParameterUpdates& updates, uint32_t group) { return updates.groups_[group].rule; };
  const auto same_tensor = [&](const WholeUpdate& a, const WholeUpdate& b) {
    return a.name == b.name && rule(*this, a.group).kind == rule(other, b.group).kind;
  };
  const auto same_run = [&](const UpdateRun& a, const UpdateRun& b) {
    return element_states(rule(*this, a.group)) == element_states(rule(other, b.group));
  };
  const bool same_runs = own.runs.size() <= 1 && its.runs.size() <= 1
                             ? own.states == its.states
                             : std::equal(own.runs.begin(), own.runs.end(), its.runs.begin(), its.runs.end(), same_run);
  return same_runs &&
         std::equal(own.wholes.begin(), own.wholes.end(), its.wholes.begin(), its.wholes.end(), same_tensor);
}

bool ParameterUpdates::have_states_of(const ParameterUpdates& other) const {
  for (size_t value = 0; value < stored_.size(); ++value) {
    if (!has_states_of(stored_[value], other, other.stored_[value])) return false;
  }
  return true;
}

ValueId ParameterUpdates::first_without_state(const ParameterUpdates& before) const {
  for (uint32_t value = 0; value < stored_.size(); ++value) {
    const StoredUpdate& own = stored_[value];
    if (has_states_of(own, before, before.stored_[value])) continue;
    const auto is_sgd = [&](const UpdateRun& run) { return groups_[run.group].rule.kind == OptimizerKind::kSgd; };
    if (!own.wholes.empty() || !std::all_of(own.runs.begin(), own.runs.end(), is_sgd)) return ValueId(value);
  }
  return {};
}

bool ParameterUpdates::have_groups_of(const ParameterUpdates& other) const {
  return stored_ == other.stored_ &&
         std::equal(groups_.begin(), groups_.end(), other.groups_.begin(), other.groups_.end(),
                    [](const UpdateGroup& a, const UpdateGroup& b) { return a.rule.kind == b.rule.kind; });
}

int64_t ParameterUpdates::state_elements() const {
  int64_t all = 0;
  for (uint32_t value = 0; value < elements_.size(); ++value)
    all += state_elements(ValueId(value), 0, elements_[value]);
  return all;
}

double ParameterUpdates::state_copies(ValueId parameter) const {
  const int64_t elements = elements_[parameter.index()];
  return elements == 0 ? 0
                       : static_cast<double>(state_elements(parameter, 0, elements)) / static_cast<double>(elements);
}

int64_t ParameterUpdates::whole_copies(ValueId parameter, int64_t element_bytes, int64_t sum_bytes) const {
  int64_t most = 0;
  for (const WholeUpdate& whole : of(parameter).wholes) {
    const bool is_muon = groups_[whole.group].rule.kind == OptimizerKind::kMuon;
    most = std::max(most, is_muon ? muon_copies(whole.shape, element_bytes, sum_bytes)
                                  : adafactor_copies(whole.shape, element_bytes, sum_bytes));
  }
  return most;
}

std::string describe(const UpdateRule& rule) {
  const UpdateRule standard = default_rule(rule.kind, rule.learning_rate);
  std::string text = fmt::format("{}, learning rate {}", str(rule.kind), rule.learning_rate);
  if (rule.momentum != standard.momentum || rule.nesterov != standard.nesterov)
    text += fmt::format(", {}momentum {}", rule.nesterov ? "Nesterov's " : "", rule.momentum);
  if (rule.beta1 != standard.beta1 || rule.beta2 != standard.beta2)
    text += fmt::format(", betas {} and {}", rule.beta1, rule.beta2);
  if (rule.epsilon != standard.epsilon) text += fmt::format(", epsilon {}", rule.epsilon);
  if (rule.amsgrad) text += ", amsgrad";
  if (rule.kind == OptimizerKind::kMuon && !rule.match_rms_adamw) text += ", original rates";
  if (rule.weight_decay != 0) text += fmt::format(", weight decay {}", rule.weight_decay);
  return text;
}

}  // namespace rannc::ir
