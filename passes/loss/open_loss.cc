#include "passes/loss/open_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ir/graph/rewriter.h"
#include "ir/op/op.h"
#include "passes/batch/sample_rules.h"
#include "passes/loss/attach_loss.h"
#include "passes/loss/internal/loss_region.h"
#include "passes/loss/internal/totals_builder.h"

namespace rannc::passes {

namespace {

using ir::Graph;

class Opener {
 public:
  Opener(Graph& graph, const ir::StoredNotes& notes)
      : graph_(graph), origins_(graph, notes), forms_(graph, origins_), totals_(graph, origins_, forms_) {}

  Result<void> open(ValueId loss, double weight) {
    const ir::ValueType& type = graph_.type(loss);
    if (type.shape && (!is_single(graph_, loss) || has_samples(graph_, loss) || !ir::is_float(type.dtype))) {
      return error(where(loss), fmt::format("the loss %{} is {}{}; it must be a float number", graph_.value(loss).name,
                                            str(type.dtype), str(*type.shape)));
    }
    RANNC_ASSIGN(const Form form, forms_.of_loss(loss));
    if (form.empty()) return error(where(loss), fmt::format("the loss %{} is always 0", graph_.value(loss).name));
    for (Part part : form) {
      part.by.weight *= weight;
      RANNC_ASSIGN(part, numerator(std::move(part), loss));
      RANNC_ASSIGN(ir::LossTerm term, totals_.term(part.value, part.by));
      graph_.add_loss(std::move(term));
    }
    return {};
  }

  std::vector<bool> border(const std::vector<ValueId>& losses, const std::vector<ValueId>& numerators) {
    return region_border(graph_, origins_, losses, numerators);
  }
  Result<void> measure(ValueId output) {
    if (has_samples(graph_, output)) return error(where(output), "has a number for each sample");
    return totals_.measure(output);
  }

  Result<void> finish() && {
    for (const auto& [input, count] : forms_.given()) RANNC_TRY(totals_.give(input, count));
    std::move(totals_).finish();
    return {};
  }

 private:
  Location where(ValueId value) const {
    return graph_.producer(value).valid() ? graph_.location(graph_.producer(value)) : Location{};
  }

  // A part of which the value is a sum over samples, and a scalar. What has no samples counts once: it is summed over
  // the samples and divided by their number.
  Result<Part> numerator(Part part, ValueId loss) {
    const std::string name(graph_.value(loss).name);
    if (!part.value.valid()) {
      part.value = add_number(graph_, graph_.type(loss).dtype, 1);
    } else if (graph_.producer(part.value).valid()) {
      part.value = scalar_sum(graph_, part.value);
    }
    if (graph_.type(part.value).batch.is_partial()) return part;
    if (graph_.batch_symbol().empty()) {
      if (graph_.producer(part.value).valid()) return part;
      part.value = graph_.add(ir::core("identity"), {part.value}, {}, name + ".once", where(loss));
      RANNC_TRY(ir::infer_types(graph_, graph_.producer(part.value)));
      return part;
    }
    const ir::Dim samples = ir::Dim::symbol(graph_.batch_symbol());
    const ValueId each = graph_.add(ir::core("expand"), {scalar_sum(graph_, part.value)},
                                    {{"shape", ir::Shape{samples}}}, name + ".each", where(loss));
    RANNC_TRY(ir::infer_types(graph_, graph_.producer(each)));
    part.value = scalar_sum(graph_, each);
    part.by.divisors.push_back(add_size(graph_, samples, name, where(loss)));
    return part;
  }

  Graph& graph_;
  Origins origins_;
  LinearForms forms_;
  TotalsBuilder totals_;
};

// The graph without some of its own outputs and what only they needed. The outputs behind its own are sums of metrics,
// which may be values of dropped outputs.
Graph without_outputs(const Graph& graph, size_t own, const std::vector<ValueId>& dropped) {
  ir::Rewriter rewriter(graph);
  for (const TaskId task : graph.tasks()) rewriter.copy(task);
  std::vector<ValueId> outputs;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const ValueId output = graph.outputs()[i];
    const bool stays = i >= own || std::find(dropped.begin(), dropped.end(), output) == dropped.end();
    if (stays) outputs.push_back(rewriter.map(output));
  }
  Graph left = std::move(rewriter).finish();
  left.set_outputs(std::move(outputs));
  ir::remove_dead(left);
  return left;
}

constexpr std::string_view kCombines = "combines the samples of a mini-batch, of which a micro-batch has a part";
constexpr std::string_view kCounts =
    "depends on the number of samples or on a sample's index, which differ between a micro-batch and the mini-batch";

// Other outputs that one micro-batch does not determine, and why: means and sums over samples, such as parts of the
// loss, and numbers of samples.
std::vector<std::pair<ValueId, std::string_view>> undetermined(const Graph& graph) {
  std::vector<std::pair<ValueId, std::string_view>> found;
  const std::vector<ValueId> counted = counted_outputs(graph);
  for (const ValueId output : graph.outputs()) {
    const ir::BatchLayout& layout = graph.type(output).batch;
    if (std::find(counted.begin(), counted.end(), output) != counted.end()) {
      found.emplace_back(output, kCounts);
    } else if (layout.mix == ir::Mix::kMixed || layout.is_partial()) {
      found.emplace_back(output, kCombines);
    }
  }
  return found;
}

// Types that a graph written as text lacks. What has no type is refused by name.
void infer_missing_types(Graph& graph) {
  for (const TaskId task : graph.tasks()) {
    const auto outputs = graph.outputs(task);
    const auto lacks = [&](ValueId output) { return !graph.type(output).shape; };
    if (std::any_of(outputs.begin(), outputs.end(), lacks)) (void)ir::infer_types(graph, task).ok();
  }
}

}  // namespace

Result<Outcome> OpenLoss::run(Graph& graph, PassContext& context) const {
  std::vector<ValueId> requested;
  for (const LossSpec& term : terms_) {
    const auto found = find_output(graph, term);
    if (!found.ok() && term.kind != LossSpec::Kind::kInGraph) return Outcome{};  // attach-loss reports it
    RANNC_ASSIGN(requested.emplace_back(), found);
  }
  infer_missing_types(graph);
  const size_t own = graph.outputs().size();
  Opener opener(graph, notes_);
  std::vector<ValueId> dropped;
  std::vector<double> weights;
  for (size_t i = 0; i < terms_.size(); ++i) {
    if (terms_[i].kind != LossSpec::Kind::kInGraph) continue;
    dropped.push_back(requested[i]);
    weights.push_back(terms_[i].weight);
  }
  // A mini-batch that is never divided has the loss of the file.
  const bool judges = judge_ && !weights.empty() && !graph.batch_symbol().empty();
  const std::vector<ValueId> opened = dropped;
  for (size_t i = 0; i < weights.size(); ++i) RANNC_TRY(opener.open(dropped[i], weights[i]));
  for (const auto& [output, why] : undetermined(graph)) {
    if (std::find(requested.begin(), requested.end(), output) != requested.end()) continue;
    // A result of samples that combines others is what infer-shapes refuses.
    if (weights.empty() && why == kCombines && has_samples(graph, output)) continue;
    dropped.push_back(output);
    if (const auto measured = opener.measure(output); !measured.ok()) {
      context.open.push_back(
          {measured.diagnostic().where, fmt::format("output '{}' is excluded: it {}, and {}", graph.value(output).name,
                                                    why, measured.diagnostic().message)});
    }
  }
  if (dropped.empty()) return Outcome{};
  RANNC_TRY(std::move(opener).finish());
  if (judges) {
    std::vector<ValueId> numerators;
    for (const ir::LossTerm& term : graph.losses()) numerators.push_back(term.numerator);
    const std::vector<bool> border = opener.border(opened, numerators);
    RANNC_TRY(judge_(loss_region(graph, border, opened, false), weights, loss_region(graph, border, numerators, true),
                     context));
  }
  graph = without_outputs(graph, own, dropped);
  return Outcome{true};
}

}  // namespace rannc::passes
