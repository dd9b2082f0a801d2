#include "runtime/train/loss_sums.h"

namespace rannc::runtime {

void LossSums::add(const StepResult& result) {
  sums_.resize(result.losses.size());
  for (size_t t = 0; t < sums_.size(); ++t) {
    sums_[t].numerator += result.losses[t].numerator;
    sums_[t].denominator += result.losses[t].denominator;
  }
}

std::optional<double> LossSums::loss(const ir::Graph& graph) const {
  bool counted = false;
  double loss = 0;
  for (size_t t = 0; t < sums_.size(); ++t) {
    const ir::LossTerm& term = graph.losses()[t];
    const bool sum = term.denominator == ir::LossTerm::Denominator::kOne && !graph.batch_symbol().empty();
    const double denominator = sum ? 1 : sums_[t].denominator;
    counted |= term.divisor(denominator) != 0;
    loss += term.loss(sums_[t].numerator, denominator);
  }
  return counted ? std::optional(loss) : std::nullopt;
}

}  // namespace rannc::runtime
