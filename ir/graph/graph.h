/// The task graph of a model.
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

/// input: fed per mini-batch; parameter: trained; buffer: running statistics; constant: fixed; random input: filled
/// with random numbers; activation: produced by a task.
enum class ValueKind : uint8_t { kInput, kParameter, kBuffer, kConstant, kRandomInput, kActivation };
std::string_view str(ValueKind kind);

/// Distribution and key of a random input. Each number depends only on (seed, step, key, sample) and its position
/// within the sample. Every reader generates the numbers itself, and regenerates them instead of keeping them. Random
/// inputs with equal keys have equal numbers.
struct RandomInput {
  enum class Of : uint8_t {
    kUniform,    ///< in [0, 1)
    kNormal,     ///< mean 0, standard deviation 1
    kBernoulli,  ///< 0 with probability `drop`, else 1 / (1 - drop); always 1 outside training
  };
  Of of = Of::kUniform;
  double drop = 0;  ///< of `kBernoulli` only
  uint64_t key = 0;
  bool operator==(const RandomInput&) const = default;
};

/// Values of the coefficients of a loss term.
struct TermScale {
  double factor = 1, divisor = 1;
};

/// One term of the training loss: weight * factor * (sum of `numerator` over the samples) / divisor. Factor and divisor
/// are coefficients (`Totals`). If the divisor is 0 the term is 0.
struct LossTerm {
  ValueId numerator;  ///< scalar (rank 0) activation of one micro-batch
  double weight = 1;
  std::optional<uint32_t> factor = {}, divisor = {};  ///< results of `Totals::coefficients`; absent: 1
  bool operator==(const LossTerm&) const = default;
  /// The contribution of a numerator `of` to the loss.
  double loss(double of, const TermScale& scale) const {
    return scale.divisor == 0 ? 0 : weight * scale.factor * of / scale.divisor;
  }
};

/// Numbers of a whole mini-batch, which no stage computes. They do not depend on how the mini-batch is divided.
struct Totals {
  /// An input that has no samples and holds a coefficient. It is not among the graph's inputs.
  struct Given {
    ValueId input;
    uint32_t coefficient = 0;
    bool operator==(const Given&) const = default;
  };
  /// What the samples of a micro-batch add to each count. A body reads inputs of the graph by name and stored values of
  /// its own, and has one result, i64 or f64, with the samples on axis 0. Without a batch symbol it has none.
  std::vector<Body> counts = {};
  /// Reads the counts, summed over the samples. Known before the step.
  std::optional<Body> coefficients = {};
  std::vector<Given> given = {};
  /// Reads `sums`, then the counts. Known after the step. The names of its results are those of the metrics.
  std::optional<Body> metrics = {};
  /// Outputs of the graph without samples. The sums over micro-batches and replicas are what metrics read.
  std::vector<ValueId> sums = {};
  bool operator==(const Totals&) const = default;
};

/// Running statistics. Once per step two leaves become (1 - momentum) * old + momentum * new, where new is the mean or
/// the unbiased variance of the mini-batch, combined from those of its micro-batches (`ir/state/statistics.h`).
struct Statistics {
  ValueId mean, variance;  ///< of one micro-batch; unread results of one task, whose attribute `momentum` applies
  ValueId running_mean, running_variance;
  bool operator==(const Statistics&) const = default;
};

/// Rows of a state tensor: a box of a stored value with its axes permuted, then reshaped to rows.
struct StatePart {
  ValueId value;                       ///< a parameter, buffer or constant
  std::vector<int64_t> begin, extent;  ///< of the box, per axis of the value
  std::vector<int64_t> axes;           ///< axis i of the permuted box is axis `axes[i]` of the box
  bool operator==(const StatePart&) const = default;
};

/// A tensor of the exported program under its `state_dict` name. Its rows are the concatenated rows of its parts. It
/// cannot be derived from the tasks that read a stored value, because exporters transpose, reorder and join tensors.
struct StateTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<StatePart> parts;
  bool operator==(const StateTensor&) const = default;
};

/// An equality of sizes that a type rule assumes because it cannot be proved. The model is valid only for batches whose
/// sizes satisfy it (`ir/graph/assumptions.h`).
struct Assumption {
  Dim left, right;
  Location where;  ///< of the first task that needs it
  bool operator==(const Assumption&) const = default;
};

/// Bipartite graph of tasks and values. It is append-only: tasks are in topological order and ids never change. A pass
/// that drops or reorders tasks builds a new graph (`ir/graph/rewriter.h`). Names are unique. Equal types and equal
/// attributes are stored once; references to them stay valid as long as the graph. Concurrent reads are safe, writes
/// are not.
class Graph {
 public:
  struct Value {
    std::string_view name;
    ValueKind kind;
    TaskId producer;        ///< invalid unless an activation
    uint32_t output_index;  ///< position among the producer's outputs
    const ValueType& type;
    const TensorData& data;  ///< of parameters, buffers and constants; invalidated by setting the data of any value
  };
  struct Task {
    const OpInfo* op = nullptr;       ///< never null; owned by the registry, or by this graph for foreign operators
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
  /// Adds a value that no task produces. A name that is taken gets a suffix `.1`, `.2` …
  ValueId add_value(ValueKind kind, std::string_view name, ValueType type, TensorData data = {});
  /// Adds a random input. Its name follows the same rule.
  ValueId add_random_input(std::string_view name, ValueType type, const RandomInput& random_input);
  /// Appends a task with `output_names.size()` new activations, whose types are unknown until a type rule sets them. An
  /// empty name becomes `v<number>`. Operands must exist already, which keeps the order topological.
  TaskId add_task(const OpInfo& op, std::span<const ValueId> inputs, Attributes attributes,
                  std::span<const std::string> output_names, const Location& location = {});
  /// Appends a task with one output and returns the output.
  ValueId add(const OpInfo& op, std::initializer_list<ValueId> inputs, Attributes attributes = {},
              std::string name = {}, const Location& location = {});
  void add_input(ValueId value) { inputs_.push_back(value); }  ///< order of the model's signature
  void add_output(ValueId value) { outputs_.push_back(value); }
  void set_outputs(std::vector<ValueId> values) { outputs_ = std::move(values); }
  void add_loss(LossTerm term) { losses_.push_back(std::move(term)); }
  void set_losses(std::vector<LossTerm> terms) { losses_ = std::move(terms); }
  void set_totals(Totals totals) { totals_ = std::move(totals); }
  void add_statistics(const Statistics& statistics) { statistics_.push_back(statistics); }
  void set_statistics(std::vector<Statistics> statistics) { statistics_ = std::move(statistics); }
  void add_state(StateTensor tensor) { state_.push_back(std::move(tensor)); }
  void set_state(std::vector<StateTensor> tensors) { state_ = std::move(tensors); }
  void set_assumptions(std::vector<Assumption> assumptions) { assumptions_ = std::move(assumptions); }

  // --- properties that passes set
  void set_type(ValueId value, ValueType type);
  void set_kind(ValueId value, ValueKind kind);
  void set_data(ValueId value, TensorData data);
  void set_attributes(TaskId task, Attributes attributes);
  /// Sets the symbol that counts the samples of a micro-batch; empty if the model has no batch.
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
  /// Distribution and key of a random input; null for any other value.
  const RandomInput* random_input(ValueId id) const;
  const ValueType& type(ValueId id) const { return types_[values_[id.index()].type]; }
  /// Dense numbers of types and of attributes. Within this graph two numbers are equal if and only if the types or the
  /// attributes are.
  uint32_t type_number(ValueId id) const { return values_[id.index()].type; }
  uint32_t attributes_number(TaskId id) const { return tasks_[id.index()].attributes; }
  uint32_t type_count() const { return types_.size(); }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  const std::vector<LossTerm>& losses() const { return losses_; }
  const Totals& totals() const { return totals_; }
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
  /// Whether `f(Use)` holds for any use. Stops at the first one.
  template <class F>
  bool any_use(ValueId id, F&& f) const {
    for (uint32_t slot = first_use_[id.index()]; slot != kNone; slot = slots_[slot].next) {
      const uint32_t task = slots_[slot].task;
      if (f(Use{TaskId(task), slot - tasks_[task].first_input})) return true;
    }
    return false;
  }
  /// The value of that name, or an invalid id.
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

  /// An operator that is not in the registry (`aten.*`, custom operators). Owned by this graph.
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
  /// Cached results of type rules. Key: operator, attributes, and type numbers of the operands.
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
  Totals totals_;
  std::vector<Statistics> statistics_;
  std::vector<StateTensor> state_;
  std::vector<Assumption> assumptions_;
  Texts texts_;
  HashIndex value_names_;
  std::unordered_map<std::string_view, uint32_t> name_suffixes_;  // last suffix used for a name that was taken
  Interned<ValueType> types_;
  Interned<Attributes> attributes_;
  std::vector<TensorData> data_;
  std::map<ValueId, RandomInput> random_inputs_;
  std::vector<std::shared_ptr<const OpInfo>> foreign_ops_;
  RuleAnswers answers_;
};

/// Whether two graphs have the same tasks, operands, attributes, types, kinds, data, names, inputs, outputs, losses,
/// totals, statistics, state and assumptions, id by id.
bool equal(const Graph& a, const Graph& b);

}  // namespace rannc::ir
