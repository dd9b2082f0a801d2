#include "runtime/aten/totals.h"

#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/aten/stored_tensor.h"
#include "runtime/aten/torch_types.h"

namespace rannc::runtime {

Result<TotalsRun::Part> TotalsRun::load(const ir::Body& body) {
  Part part{body, GraphValues(body.graph().value_count())};
  for (const ValueId value : body.graph().values()) {
    const ir::Graph::Value found = body.graph().value(value);
    if (found.kind != ir::ValueKind::kConstant) continue;
    RANNC_ASSIGN(part.stored[value.index()], to_tensor({found.type, found.data}));
  }
  return part;
}

Result<TotalsRun> TotalsRun::load(const ir::Graph& graph) {
  TotalsRun made;
  made.divides_ = !graph.batch_symbol().empty();
  for (const ir::Body& count : graph.totals().counts) {
    RANNC_ASSIGN(Part part, load(count));
    made.counts_.push_back(std::move(part));
  }
  if (graph.totals().coefficients) {
    RANNC_ASSIGN(made.coefficients_, load(*graph.totals().coefficients));
  }
  if (graph.totals().metrics) {
    RANNC_ASSIGN(made.metrics_, load(*graph.totals().metrics));
  }
  return made;
}

Result<Tensors> TotalsRun::run(const Part& part, const Tensors& inputs, const ir::Bindings& sizes) {
  const c10::NoGradGuard no_tape;
  const ir::Graph& graph = part.body.graph();
  GraphValues values = part.stored;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId input = graph.inputs()[i];
    values[input.index()] = inputs[i].to(at::kCPU, scalar_type(graph.type(input).dtype));
  }
  RANNC_TRY(run_graph(graph, {.sizes = sizes, .training = false, .records = false}, values));
  Tensors results;
  for (const ValueId output : graph.outputs()) results.push_back(*values[output.index()]);
  return results;
}

std::vector<std::string> TotalsRun::inputs(size_t count) const {
  const ir::Graph& graph = counts_[count].body.graph();
  std::vector<std::string> names;
  for (const ValueId input : graph.inputs()) names.emplace_back(graph.value(input).name);
  return names;
}

Result<at::Tensor> TotalsRun::rows(size_t count, const InputOf& input, const ir::Bindings& sizes) const {
  Tensors given;
  for (const std::string& name : inputs(count)) {
    RANNC_ASSIGN(given.emplace_back(), input(name));
  }
  const auto made = run(counts_[count], given, sizes);
  if (made.ok()) return made->at(0);
  return error(made.diagnostic().where, fmt::format("batch: what is counted of '{}': {}",
                                                    fmt::join(inputs(count), "', '"), made.diagnostic().message));
}

at::Tensor TotalsRun::no_rows(size_t count, int64_t samples) const {
  const ir::Graph& graph = counts_[count].body.graph();
  const ir::ValueType& type = graph.type(graph.outputs()[0]);
  std::vector<int64_t> sizes;
  for (const ir::Dim& dim : *type.shape) sizes.push_back(dim.is_constant() ? dim.constant() : samples);
  return at::zeros(sizes, at::TensorOptions().dtype(scalar_type(type.dtype)));
}

// LibTorch divides the sum of more numbers among threads, of which the caller's thread may have any number.
at::Tensor TotalsRun::total(const at::Tensor& rows) const {
  constexpr int64_t kUndivided = at::internal::GRAIN_SIZE / 2;
  if (!divides_) return rows;
  if (rows.size(0) <= kUndivided) return at::sum(rows, 0);
  const std::vector<at::Tensor> parts = rows.split(kUndivided);
  at::Tensor sum = at::sum(parts[0], 0);
  for (size_t i = 1; i < parts.size(); ++i) sum = sum + at::sum(parts[i], 0);
  return sum;
}

Result<Tensors> TotalsRun::count(const InputOf& input, const ir::Bindings& sizes) const {
  Tensors counts;
  for (size_t i = 0; i < counts_.size(); ++i) {
    RANNC_ASSIGN(const at::Tensor own, rows(i, input, sizes));
    counts.push_back(total(own));
  }
  return counts;
}

Result<Tensors> TotalsRun::coefficients(const Tensors& counts) const {
  return coefficients_ ? run(*coefficients_, counts, {}) : Result<Tensors>(Tensors{});
}

ir::TermScale TotalsRun::scale(const ir::LossTerm& term, const Tensors& coefficients) const {
  const auto number = [&](const std::optional<uint32_t>& of) { return of ? coefficients[*of].item<double>() : 1.0; };
  return {number(term.factor), number(term.divisor)};
}

Result<std::map<std::string, at::Tensor>> TotalsRun::metrics(const Tensors& sums, const Tensors& counts) const {
  std::map<std::string, at::Tensor> found;
  if (!metrics_) return found;
  Tensors inputs = sums;
  inputs.insert(inputs.end(), counts.begin(), counts.end());
  RANNC_ASSIGN(const Tensors made, run(*metrics_, inputs, {}));
  const ir::Graph& graph = metrics_->body.graph();
  for (size_t i = 0; i < made.size(); ++i) found.emplace(graph.value(graph.outputs()[i]).name, made[i]);
  return found;
}

std::vector<uint32_t> counts_of_coefficient(const ir::Graph& graph, uint32_t coefficient) {
  const ir::Graph& body = graph.totals().coefficients->graph();
  std::vector<bool> needed(body.value_count());
  needed[body.outputs()[coefficient].index()] = true;
  for (uint32_t i = body.task_count(); i-- > 0;) {
    const auto made = body.outputs(TaskId(i));
    if (std::none_of(made.begin(), made.end(), [&](ValueId id) { return needed[id.index()]; })) continue;
    for (const ValueId operand : body.inputs(TaskId(i))) {
      if (operand.valid()) needed[operand.index()] = true;
    }
  }
  std::vector<uint32_t> counts;
  for (uint32_t i = 0; i < body.inputs().size(); ++i) {
    if (needed[body.inputs()[i].index()]) counts.push_back(i);
  }
  return counts;
}

}  // namespace rannc::runtime
