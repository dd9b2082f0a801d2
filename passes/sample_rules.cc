#include "passes/sample_rules.h"

#include <algorithm>

#include "ir/constant.h"
#include "ir/op.h"

namespace rannc::passes {

namespace {

using ir::Dim;
using ir::Graph;

// An integer value whose elements are factor * (number of the sample) + something in low…high.
struct Affine {
  Dim factor = 0, low = 0, high = 0;
};

using Found = std::optional<Affine>;

constexpr int kMaxDepth = 64;
constexpr int64_t kMaxElements = 1 << 16;

class Tracer {
 public:
  explicit Tracer(const Graph& graph) : graph_(graph) {}

  // The elements of `id`; of a value whose last axis lists components, those of one component (`component` >= 0).
  Found trace(ValueId id, int64_t component, int depth = 0) const {
    const Graph::Value& value = graph_.value(id);
    if (depth > kMaxDepth) return std::nullopt;
    if (value.type.contents && component < 0) return bounds_of(*value.type.contents);
    if (value.kind == ir::ValueKind::kConstant) return constant(value, component);
    if (!value.producer.valid()) return std::nullopt;
    return trace_task(value.producer, component, depth + 1);
  }

 private:
  static Found bounds_of(const ir::Contents& contents) {
    if (contents.empty()) return std::nullopt;
    Affine found{0, contents[0], contents[0]};
    for (const Dim& dim : contents) {
      found.low = min(found.low, dim);
      found.high = max(found.high, dim);
    }
    return found;
  }

  static Found constant(const Graph::Value& value, int64_t component) {
    const auto values = ir::decode_integers(value.type, value.data, kMaxElements);
    if (!values || values->empty()) return std::nullopt;
    const int64_t step = component < 0 ? 1 : value.type.shape->back().constant();
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (size_t i = static_cast<size_t>(std::max<int64_t>(component, 0)); i < values->size();
         i += static_cast<size_t>(step)) {
      low = std::min(low, (*values)[i]);
      high = std::max(high, (*values)[i]);
    }
    return Affine{0, low, high};
  }

  Found trace_task(TaskId task, int64_t component, int depth) const {
    const std::string_view name = graph_.op(task).name;
    const auto in = graph_.inputs(task);
    if (name == "core.range") return range(task);
    if (name == "core.identity" || name == "core.cast" || name == "core.expand") return trace(in[0], component, depth);
    if (name == "core.concat" && component >= 0) return concat(task, component, depth);
    if (name == "core.unsqueeze" || name == "core.reshape" || name == "core.squeeze")
      return view(task, component, depth);
    if (name == "core.permute" && component < 0) return trace(in[0], component, depth);
    if (name != "core.add" && name != "core.sub" && name != "core.mul") return std::nullopt;
    const Found a = trace(in[0], component, depth), b = trace(in[1], component, depth);
    if (!a || !b) return std::nullopt;
    if (name == "core.add") return Affine{a->factor + b->factor, a->low + b->low, a->high + b->high};
    if (name == "core.sub") return Affine{a->factor - b->factor, a->low - b->high, a->high - b->low};
    return product(*a, *b);
  }

  // By one number that is not negative.
  static Found product(const Affine& a, const Affine& b) {
    const bool scaled = b.factor == Dim(0) && b.low == b.high;
    if (!scaled && !(a.factor == Dim(0) && a.low == a.high)) return std::nullopt;
    const Affine& other = scaled ? a : b;
    const Dim by = scaled ? b.low : a.low;
    if (by.is_constant() && by.constant() < 0) return std::nullopt;
    return Affine{other.factor * by, other.low * by, other.high * by};
  }

  // A rearrangement; one that ends in a last axis of extent 1 makes the whole value one component.
  Found view(TaskId task, int64_t component, int depth) const {
    const auto& shape = *graph_.type(graph_.outputs(task)[0]).shape;
    if (component < 0) return trace(graph_.inputs(task)[0], component, depth);
    if (component == 0 && !shape.empty() && shape.back() == Dim(1)) return trace(graph_.inputs(task)[0], -1, depth);
    return std::nullopt;
  }

  Found concat(TaskId task, int64_t component, int depth) const {
    const auto& shape = *graph_.type(graph_.outputs(task)[0]).shape;
    const auto rank = static_cast<int64_t>(shape.size());
    const int64_t axis = graph_.attributes(task).integer("axis");
    if ((axis < 0 ? axis + rank : axis) != rank - 1) return std::nullopt;
    for (const ValueId part : graph_.inputs(task)) {
      const Dim& extent = graph_.type(part).shape->back();
      if (!extent.is_constant()) return std::nullopt;
      if (component < extent.constant()) return trace(part, component, depth);
      component -= extent.constant();
    }
    return std::nullopt;
  }

  Found range(TaskId task) const {
    const Found start = bound(task, 0, "start", 0), delta = bound(task, 2, "delta", 1);
    const ir::ValueType& type = graph_.type(graph_.outputs(task)[0]);
    if (!start || !delta) return std::nullopt;
    const Dim step = delta->low, count = (*type.shape)[0];
    if (!type.batch.has_batch()) {
      if (!step.is_constant() || step.constant() < 0) return std::nullopt;
      return Affine{0, start->low, start->low + step * (count - Dim(1))};
    }
    const bool one_per_sample = type.batch.outer == Dim(1) && type.batch.inner == Dim(1);
    if (!one_per_sample) return std::nullopt;
    return Affine{step, start->low, start->low};
  }

  Found bound(TaskId task, size_t operand, std::string_view name, int64_t otherwise) const {
    const ir::Attribute* attribute = graph_.attributes(task).find(name);
    if (attribute != nullptr) {
      const auto* dim = std::get_if<Dim>(attribute);
      return dim ? Found(Affine{0, *dim, *dim}) : std::nullopt;
    }
    const auto in = graph_.inputs(task);
    if (operand >= in.size() || !in[operand].valid()) return Affine{0, otherwise, otherwise};
    const auto& contents = graph_.type(in[operand]).contents;
    return contents ? bounds_of(*contents) : std::nullopt;
  }

  const Graph& graph_;
};

bool not_negative(const Dim& dim) { return dim.is_constant() && dim.constant() >= 0; }

}  // namespace

Result<void> check_sample_index(const Graph& graph, TaskId task) {
  const std::string_view name = graph.op(task).name;
  if (name != "core.gather" && name != "core.gather_nd") return {};
  const auto in = graph.inputs(task);
  const ir::ValueType& data = graph.type(in[0]);
  if (!data.batch.has_batch()) return {};
  int64_t component = -1;
  if (name == "core.gather") {
    const int64_t given = graph.attributes(task).integer("axis");
    if ((given < 0 ? given + static_cast<int64_t>(data.shape->size()) : given) != data.batch.axis) return {};
  } else {
    const int64_t first = graph.attributes(task).integer("batch_dims");
    component = data.batch.axis - first;
    if (component < 0 || component >= graph.type(in[1]).shape->back().constant()) return {};
  }
  const Found index = Tracer(graph).trace(in[1], component);
  const Dim& inner = data.batch.inner;
  if (index && data.batch.outer == Dim(1) && index->factor == inner && not_negative(index->low) &&
      not_negative(inner - Dim(1) - index->high)) {
    return {};
  }
  return error(graph.location(task), std::string(name) + " picks samples along axis " +
                                         std::to_string(data.batch.axis) + " of " + ir::str(*data.shape) + " by %" +
                                         std::string(graph.value(in[1]).name) +
                                         ", which is not shown to hold each sample's own number");
}

namespace {

// Sums that a loss consists of: only the runtime, which adds up those of all micro-batches, may read one.
Result<void> check_loss_sum(const Graph& graph, TaskId task) {
  const auto in = graph.inputs(task);
  const bool sampled = std::any_of(in.begin(), in.end(), [&](ValueId id) { return graph.type(id).batch.has_batch(); });
  const ValueId sum = graph.outputs(task)[0];
  bool read = std::find(graph.outputs().begin(), graph.outputs().end(), sum) != graph.outputs().end();
  graph.for_each_use(sum, [&](Graph::Use) { read = true; });
  if (!sampled || !read) return {};
  return error(graph.location(task), std::string(graph.op(task).name) + " makes %" + std::string(graph.value(sum).name) +
                                         " a sum over the samples of a micro-batch, which can be a loss, but neither be "
                                         "given out nor read by a task");
}

// What helps where the sum is the model's own loss.
Diagnostic with_advice(Diagnostic failure, const Graph& graph) {
  if (!graph.losses().empty()) return failure;
  return std::move(failure).note("if an output of the model is its loss, ask for it: --loss 'in_graph(output=NAME)'");
}

}  // namespace

Result<void> check_no_sum_over_samples(const Graph& graph, TaskId task) {
  const std::string_view name = graph.op(task).name;
  if (name == "core.cross_entropy_sum" || name == "core.mse_sum") {
    auto checked = check_loss_sum(graph, task);
    return checked.ok() ? checked : Result<void>(with_advice(checked.diagnostic(), graph));
  }
  if (name != "core.sum" && name != "core.mean") return {};
  const ir::ValueType& from = graph.type(graph.inputs(task)[0]);
  if (!from.batch.has_batch() || graph.type(graph.outputs(task)[0]).batch.has_batch()) return {};
  return with_advice(error(graph.location(task), std::string(name) + " over axis " + std::to_string(from.batch.axis) +
                                                     " of " + ir::str(*from.shape) +
                                                     " would mix the samples of a micro-batch"),
                     graph);
}

}  // namespace rannc::passes
