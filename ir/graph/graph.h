/// The task/value graph of a model.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/base/ids.h"
#include "ir/graph/attributes.h"
#include "ir/graph/tables.h"
#include "ir/graph/type.h"

namespace rannc::ir {

struct OpInfo;

/// input: fed per mini-batch; parameter: trained; buffer: running statistics; constant: fixed; draw: random numbers;
/// activation: made by a task.
enum class ValueKind : uint8_t { kInput, kParameter, kBuffer, kConstant, kRandomInput, kActivation };
std::string_view str(ValueKind kind);

/// What a value of kind draw is made of. Its numbers follow from (seed, step, key, sample) and their place within the
/// sample alone: whoever reads it draws it himself, and draws it again rather than keep it. Draws of one key draw
/// alike.
struct RandomInput {
  enum class Of : uint8_t {
    kUniform,    ///< from 0 to below 1
    kNormal,     ///< mean 0, deviation 1
    kBernoulli,  ///< 0 with probability `drop`, else 1 / (1 - drop); 1 throughout where nothing is trained
  };
  Of of = Of::kUniform;
  double drop = 0;  ///< of bernoulli alone
  uint64_t key = 0;
  bool operator==(const RandomInput&) const = default;
};

/// Elements of a tensor that do not count: the first `front` and the last `back` along `axis`.
struct Trim {
  int64_t axis = 0, front = 0, back = 0;
  bool operator==(const Trim&) const = default;
};

/// One term of the training loss: weight * (sum of `numerator` over the micro-batches) / denominator, where the
/// denominator is counted from the labels of the whole mini-batch before the step. Where `divisor` is 0 the term is 0.
struct LossTerm {
  enum class Denominator : uint8_t {
    kOne,           ///< the numerator is the loss: a sum
    kElements,      ///< number of elements of `labels`
    kNotIgnored,    ///< number of elements of `labels` that differ from `ignore_index`
    kSamples,       ///< number of samples
    kClassWeights,  ///< sum of `class_weights` at the elements of `labels` that differ from `ignore_index`
    kSum,           ///< sum of the elements of `labels`
  };
  ValueId numerator;  ///< scalar (rank 0) activation of one micro-batch
  double weight = 1;
  Denominator denominator = Denominator::kOne;
  ValueId labels;  ///< graph input; invalid where the denominator does not count it
  int64_t ignore_index = -100;
  std::vector<double> class_weights = {};  ///< by class; of `kClassWeights` alone, and finite
  /// Of `labels`, before they are counted: each axis once, none of them that of samples.
  std::vector<Trim> trims = {};
  double added = 0;          ///< to what is counted, before it divides; of `kOne` none
  double least = -HUGE_VAL;  ///< what divides does not fall below it
  bool operator==(const LossTerm&) const = default;
  /// What divides, of so many elements, samples or weights.
  double divisor(double counted) const { return std::max(counted + added, least); }
  /// What a numerator adds to the loss, of so many elements, samples or weights; nothing where 0 divides.
  double loss(double of, double counted) const { return divisor(counted) == 0 ? 0 : weight * of / divisor(counted); }
  bool counts_labels() const { return denominator != Denominator::kOne && denominator != Denominator::kSamples; }
};

/// Running statistics: once a step two leaves become (1 - momentum) * what they were + momentum * mean, or unbiased
/// variance, of the mini-batch, which is put together from those of its micro-batches (`ir/state/statistics.h`).
struct Statistics {
  ValueId mean, variance;  ///< of one micro-batch: made by one task, whose attribute the momentum is; nobody reads them
  ValueId running_mean, running_variance;
  bool operator==(const Statistics&) const = default;
};

/// Rows of a tensor of state: a box of a stored value, its axes reordered, then shaped as rows.
struct StatePart {
  ValueId value;                       ///< a parameter, buffer or constant
  std::vector<int64_t> begin, extent;  ///< of the box, per axis of the value
  std::vector<int64_t> axes;           ///< axis i of what is shaped is axis `axes[i]` of the box
  bool operator==(const StatePart&) const = default;
};

/// A tensor of the program that was exported, under the name that its author knows it by, as `state_dict` has it: its
/// rows are those of the parts, one part behind another. Which tasks read a stored value says nothing of it: exporters
/// transpose, reorder and join.
struct StateTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<StatePart> parts;
  bool operator==(const StateTensor&) const = default;
};

/// Sizes that a type rule takes for equal though that cannot be proved: the model means something only for batches
/// whose sizes fulfil it (`ir/graph/assumptions.h`).
struct Assumption {
  Dim left, right;
  Location where;  ///< of the first task that needs it
  bool operator==(const Assumption&) const = default;
};

/// Bipartite graph of tasks and values. Append-only: tasks stand in topological order, ids never change, and a pass
/// that drops or reorders builds a new graph (`ir/graph/rewriter.h`). Names are unique. Types and attributes that are
/// equal are kept once; references to them stay valid as long as the graph. Not thread-safe for writing; any number of
/// readers.
class Graph {
 public:
  struct Value {
    std::string_view name;
    ValueKind kind;
    TaskId producer;        ///< invalid unless an activation
    uint32_t output_index;  ///< position among the producer's outputs
    const ValueType& type;
    const TensorData& data;  ///< of parameters, buffers and constants; until data of any value is set
  };
  struct Task {
    const OpInfo* op = nullptr;       ///< never null; of the registry, or of this graph for operators unknown to it
    std::span<const ValueId> inputs;  ///< an invalid id is an absent optional operand
    std::span<const ValueId> outputs;
    const Attributes& attributes;
    Location location;
  };
  struct Use {
    TaskId task;
    uint32_t operand;
  };

  Graph() = default;
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;
  Graph& operator=(const Graph&) = delete;
  Graph clone() const { return *this; }

  // --- building
  /// A value no task makes. A name that is taken gets a suffix `.1`, `.2` …
  ValueId add_value(ValueKind kind, std::string_view name, ValueType type, TensorData data = {});
  /// A value of kind draw; its name as that of any value.
  ValueId add_random_input(std::string_view name, ValueType type, const RandomInput& draw);
  /// Appends a task with `output_names.size()` fresh activations (types unknown until a shape rule sets them; an empty
  /// name gets `v<number>`). Operands must exist already: that keeps the order topological.
  TaskId add_task(const OpInfo& op, std::span<const ValueId> inputs, Attributes attributes,
                  std::span<const std::string> output_names, const Location& location = {});
  /// Convenience for one output; returns it.
  ValueId add(const OpInfo& op, std::initializer_list<ValueId> inputs, Attributes attributes = {},
              std::string name = {}, const Location& location = {});
  void add_input(ValueId value) { inputs_.push_back(value); }  ///< order of the model's signature
  void add_output(ValueId value) { outputs_.push_back(value); }
  void set_outputs(std::vector<ValueId> values) { outputs_ = std::move(values); }
  void add_loss(LossTerm term) { losses_.push_back(std::move(term)); }
  void set_losses(std::vector<LossTerm> terms) { losses_ = std::move(terms); }
  void add_statistics(const Statistics& statistics) { statistics_.push_back(statistics); }
  void set_statistics(std::vector<Statistics> statistics) { statistics_ = std::move(statistics); }
  void add_state(StateTensor tensor) { state_.push_back(std::move(tensor)); }
  void set_state(std::vector<StateTensor> tensors) { state_ = std::move(tensors); }
  void set_assumptions(std::vector<Assumption> assumptions) { assumptions_ = std::move(assumptions); }

  // --- facts that passes fill in
  void set_type(ValueId value, ValueType type);
  void set_kind(ValueId value, ValueKind kind);
  void set_data(ValueId value, TensorData data);
  void set_attributes(TaskId task, Attributes attributes);
  /// Symbol that counts the samples of a micro-batch; empty where the model has no batch.
  void set_batch_symbol(std::string name);
  void set_name(std::string name) { name_ = std::move(name); }

  // --- reading
  const std::string& name() const { return name_; }
  const std::string& batch_symbol() const { return batch_symbol_; }
  uint32_t task_count() const { return static_cast<uint32_t>(tasks_.size()); }
  uint32_t value_count() const { return static_cast<uint32_t>(values_.size()); }
  Task task(TaskId id) const;
  const OpInfo& op(TaskId id) const { return *tasks_[id.index()].op; }
  std::span<const ValueId> inputs(TaskId id) const;
  std::span<const ValueId> outputs(TaskId id) const;
  const Attributes& attributes(TaskId id) const;
  Location location(TaskId id) const;
  Value value(ValueId id) const;
  ValueKind kind(ValueId id) const { return values_[id.index()].kind; }
  TaskId producer(ValueId id) const { return values_[id.index()].producer; }
  /// What a value draws; null: it is no draw.
  const RandomInput* random_input(ValueId id) const;
  const ValueType& type(ValueId id) const { return types_[values_[id.index()].type]; }
  /// Dense numbers of types and of attributes: equal within this graph exactly where these are equal.
  uint32_t type_number(ValueId id) const { return values_[id.index()].type; }
  uint32_t attributes_number(TaskId id) const { return tasks_[id.index()].attributes; }
  uint32_t type_count() const { return types_.size(); }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  const std::vector<LossTerm>& losses() const { return losses_; }
  const std::vector<Statistics>& statistics() const { return statistics_; }
  const std::vector<StateTensor>& state() const { return state_; }
  const std::vector<Assumption>& assumptions() const { return assumptions_; }
  bool has_uses(ValueId id) const { return first_use_[id.index()] != kNone; }
  /// Uses in the order of the reading tasks. A task that reads a value twice appears twice.
  std::vector<Use> uses(ValueId id) const;
  /// Calls `f(Use)` for each use, without allocating.
  template <class F>
  void for_each_use(ValueId id, F&& f) const {
    for (uint32_t slot = first_use_[id.index()]; slot != kNone; slot = slots_[slot].next) {
      const uint32_t task = slots_[slot].task;
      f(Use{TaskId(task), slot - tasks_[task].first_input});
    }
  }
  /// Whether `f(Use)` holds for a use; asks no further once it does.
  template <class F>
  bool any_use(ValueId id, F&& f) const {
    for (uint32_t slot = first_use_[id.index()]; slot != kNone; slot = slots_[slot].next) {
      const uint32_t task = slots_[slot].task;
      if (f(Use{TaskId(task), slot - tasks_[task].first_input})) return true;
    }
    return false;
  }
  /// The value of that name, or invalid.
  ValueId find(std::string_view name) const;
  /// Iterates ids 0…n-1.
  template <class IdType>
  struct Range {
    struct Iterator {
      uint32_t i;
      IdType operator*() const { return IdType(i); }
      Iterator& operator++() { return ++i, *this; }
      bool operator!=(const Iterator& other) const { return i != other.i; }
    };
    uint32_t count;
    Iterator begin() const { return {0}; }
    Iterator end() const { return {count}; }
  };
  Range<TaskId> tasks() const { return {task_count()}; }
  Range<ValueId> values() const { return {value_count()}; }

  /// An operator that the registry does not know (`aten.*`, a user's own), owned by this graph.
  const OpInfo& foreign_op(std::string_view name);

 private:
  friend class Rewriter;
  friend Result<void> infer_types(Graph& graph, TaskId task);

  static constexpr uint32_t kNone = UINT32_MAX;
  struct TaskRecord {
    const OpInfo* op;
    std::string_view file, node;  // empty: unknown
    uint32_t line, column;
    uint32_t first_input, first_output;
    uint32_t input_count, output_count;
    uint32_t attributes;
  };
  struct ValueRecord {
    std::string_view name;
    uint32_t name_hash;
    uint32_t type;
    uint32_t data;  // kNone: none
    TaskId producer;
    uint32_t output_index;
    ValueKind kind;
  };
  struct Slot {  // one operand; chained per value in the order of tasks
    uint32_t task;
    uint32_t next;
  };
  /// What a type rule said of each question: operator, attributes, numbers of the operands' types.
  struct RuleAnswers {
    std::vector<uint32_t> key;
    std::unordered_map<std::vector<uint32_t>, std::vector<uint32_t>, HashOfNumbers> known;
  };
  Graph(const Graph&) = default;
  Graph without_content() const;
  ValueId find(std::string_view name, uint32_t hash) const;
  void name_value(ValueRecord& value, std::string_view wanted, uint32_t hash);
  void name_otherwise(ValueRecord& value, std::string_view taken);
  ValueId push_value(const ValueRecord& value);
  TaskId push_task(TaskRecord task, std::span<const ValueId> inputs);
  ValueId copy_value(const Graph& from, ValueId value);
  TaskId copy_task(const Graph& from, TaskId task, std::span<const ValueId> inputs);

  std::string name_;
  std::string batch_symbol_;
  std::vector<TaskRecord> tasks_;
  std::vector<ValueRecord> values_;
  std::vector<Slot> slots_;
  std::vector<ValueId> operand_ids_;  // parallel to slots_, so that operands are a span of ids
  std::vector<ValueId> output_ids_;
  std::vector<uint32_t> first_use_, last_use_;  // per value
  std::vector<ValueId> inputs_, outputs_;
  std::vector<LossTerm> losses_;
  std::vector<Statistics> statistics_;
  std::vector<StateTensor> state_;
  std::vector<Assumption> assumptions_;
  Texts texts_;
  HashIndex value_names_;
  std::unordered_map<std::string_view, uint32_t> name_suffixes_;  // last suffix given to a name that was taken
  Interned<ValueType> types_;
  Interned<Attributes> attributes_;
  std::vector<TensorData> data_;
  std::map<ValueId, RandomInput> draws_;
  std::vector<std::shared_ptr<const OpInfo>> foreign_ops_;
  RuleAnswers answers_;
};

/// Same tasks, operands, attributes, types, kinds, data, names, inputs, outputs, losses, statistics, state and
/// assumptions, id by id.
bool equal(const Graph& a, const Graph& b);

}  // namespace rannc::ir
