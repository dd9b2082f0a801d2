#include "runtime/train/loss_sums.h"

#include <fmt/format.h>

#include <cmath>

#include "runtime/aten/totals.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

void add_values(Values& to, const Values& more) {
  for (size_t i = 0; i < more.size(); ++i) {
    if (i == to.size()) {
      to.push_back(more[i]);
    } else {
      to[i] = to_value(to_tensor(to[i]) + to_tensor(more[i]));
    }
  }
}

Tensors tensors_of(const Values& values) {
  Tensors made;
  for (const Value& value : values) made.push_back(to_tensor(value));
  return made;
}

}  // namespace

std::map<std::string, double> scalar_metrics(const std::map<std::string, Value>& metrics) {
  std::map<std::string, double> scalars;
  for (const auto& [name, metric] : metrics) {
    if (to_tensor(metric).numel() == 1) scalars[name] = to_tensor(metric).item<double>();
  }
  return scalars;
}

void LossSums::add(const StepResult& result) {
  sums_.numerators.resize(result.sums.numerators.size());
  for (size_t t = 0; t < sums_.numerators.size(); ++t) sums_.numerators[t] += result.sums.numerators[t];
  add_values(sums_.counts, result.sums.counts);
  add_values(sums_.sums, result.sums.sums);
  ++batches_;
}

Result<std::optional<double>> LossSums::loss(const ir::Graph& graph) const {
  if (sums_.numerators.empty()) return std::optional<double>();
  RANNC_ASSIGN(const TotalsRun totals, TotalsRun::load(graph));
  RANNC_ASSIGN(const Tensors coefficients, totals.coefficients(tensors_of(sums_.counts)));
  bool counted = false;
  double loss = 0;
  for (size_t t = 0; t < sums_.numerators.size(); ++t) {
    const ir::LossTerm& term = graph.losses()[t];
    ir::TermScale scale = totals.scale(term, coefficients);
    if (!term.divisor && graph.batch_symbol().empty()) scale.divisor = batches_;
    if (!std::isfinite(scale.factor) || !std::isfinite(scale.divisor)) {
      return error(fmt::format("over all samples, loss term %{} is multiplied by {} and divided by {}",
                               graph.value(term.numerator).name, scale.factor, scale.divisor));
    }
    counted |= scale.divisor != 0;
    loss += term.loss(sums_.numerators[t], scale);
  }
  return counted ? std::optional(loss) : std::nullopt;
}

Result<std::map<std::string, Value>> LossSums::metrics(const ir::Graph& graph) const {
  std::map<std::string, Value> found;
  if (sums_.counts.empty() && sums_.sums.empty()) return found;
  RANNC_ASSIGN(const TotalsRun totals, TotalsRun::load(graph));
  RANNC_ASSIGN(const auto metrics, totals.metrics(tensors_of(sums_.sums), tensors_of(sums_.counts)));
  for (const auto& [name, metric] : metrics) found.emplace(name, to_value(metric));
  return found;
}

}  // namespace rannc::runtime
