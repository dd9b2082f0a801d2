#include "tools/compiler/sample_independence.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "ir/match/match.h"
#include "runtime/aten/totals.h"
#include "runtime/engine/tensor.h"
#include "tools/common/units.h"
#include "tools/compiler/float64_run.h"
#include "tools/compiler/planning_sizes.h"
#include "tools/compiler/synthetic_samples.h"

namespace rannc::tools {

namespace {

using ir::Graph;

constexpr double kTolerance = 1e-8;    // relative to the largest number of an output
constexpr int64_t kMostSingles = 8;    // samples that run alone
constexpr int64_t kLeastTogether = 3;  // so that one is neither the first nor the last
constexpr PreferredSizes kSmallSizes = {8, 8, 8};

/// A range of synthetic samples.
struct Samples {
  int64_t first, count;
  bool operator==(const Samples&) const = default;
};

std::string words(const Samples& samples, const Samples& whole) {
  if (samples.count == 1 && whole.count > 1) return "alone";
  return fmt::format("in a mini-batch of {}", samples.count);
}

/// Results of a run over some samples.
struct Run {
  Samples samples;
  runtime::GraphValues values;
};

double largest(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  return at::nan_to_num(tensor.to(at::kDouble).abs(), 0, 0, 0).max().item<double>();
}

/// Returns a mask of the elements that differ by more than `allowed`. NaN equals only NaN.
at::Tensor differences(const at::Tensor& a, const at::Tensor& b, double allowed) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const at::Tensor equal = at::logical_or(at::eq(x, y), at::logical_and(at::isnan(x), at::isnan(y)));
  return at::logical_and(at::logical_not(equal), at::logical_not(at::le((x - y).abs(), allowed)));
}

/// Runs and compares a batch-polymorphic graph on synthetic samples.
class Comparison {
 public:
  Comparison(const Graph& graph, const Float64Run& run, SyntheticSamples made_up)
      : graph_(graph), run_(run), made_up_(std::move(made_up)) {}

  Result<Run> at(const Samples& samples) const {
    RANNC_ASSIGN(const runtime::GraphValues given, made_up_.of(samples.first, samples.count));
    RANNC_ASSIGN(runtime::GraphValues values, run_.run(given, made_up_.sizes(samples.count)));
    return Run{samples, std::move(values)};
  }

  /// Compares outputs of samples that both runs have, and outputs that do not depend on samples.
  Result<void> compare(const Run& whole, const Run& part) const {
    for (const ValueId output : graph_.outputs()) {
      const ir::BatchLayout& layout = graph_.type(output).batch;
      if (!layout.has_batch() && layout.mix != ir::Mix::kNone) continue;
      at::Tensor a = *whole.values[output.index()], b = *part.values[output.index()];
      const double allowed = kTolerance * largest(a);
      int64_t first = 0;
      if (layout.has_batch()) {
        first = std::max(whole.samples.first, part.samples.first);
        const int64_t end =
            std::min(whole.samples.first + whole.samples.count, part.samples.first + part.samples.count);
        a = of_samples(a, layout, whole.samples, first, end - first);
        b = of_samples(b, layout, part.samples, first, end - first);
      }
      RANNC_TRY(compare(output, a, b, allowed, [&](int64_t sample) {
        return std::pair(fmt::format(" of sample {}", first + sample),
                         std::pair(words(whole.samples, whole.samples), words(part.samples, whole.samples)));
      }));
    }
    return {};
  }

  /// Compares all outputs with those of another graph for the same samples.
  Result<void> compare(const Run& own, const Graph& file, const runtime::GraphValues& others) const {
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const ValueId output = graph_.outputs()[i];
      const at::Tensor &a = *own.values[output.index()], &b = *others[file.outputs()[i].index()];
      if (a.sizes() != b.sizes()) {
        return error(place(output), fmt::format("numeric check: %{} has {} elements, but {} in the file's own graph",
                                                graph_.value(output).name, a.numel(), b.numel()));
      }
      RANNC_TRY(compare(output, a, b, kTolerance * largest(b), [&](int64_t) {
        return std::pair(std::string(), std::pair(words(own.samples, {}), std::string("in the file's own graph")));
      }));
    }
    return {};
  }

  /// Whether some output differs between samples. Returns true for graphs with losses, where this is unknown.
  bool distinguishes(const Run& whole) const {
    if (whole.samples.count < 2 || !graph_.losses().empty()) return true;
    bool any = false;
    for (const ValueId output : graph_.outputs()) {
      const ir::BatchLayout& layout = graph_.type(output).batch;
      if (!layout.has_batch()) continue;
      any = true;
      const at::Tensor& values = *whole.values[output.index()];
      const at::Tensor first = of_samples(values, layout, whole.samples, whole.samples.first, 1);
      for (int64_t i = 1; i < whole.samples.count; ++i) {
        const at::Tensor other = of_samples(values, layout, whole.samples, whole.samples.first + i, 1);
        if (differences(first, other, kTolerance * largest(values)).any().item<bool>()) return true;
      }
    }
    return !any;
  }

  /// Whether an output or a numerator has a finite element.
  bool is_finite(const Run& run) const {
    const auto finite = [&](ValueId value) { return at::isfinite(*run.values[value.index()]).any().item<bool>(); };
    return std::any_of(graph_.outputs().begin(), graph_.outputs().end(), finite) ||
           std::any_of(graph_.losses().begin(), graph_.losses().end(),
                       [&](const ir::LossTerm& term) { return finite(term.numerator); });
  }

  /// Checks that the numerators of single samples sum to those of all samples.
  Result<void> compare_sums(const Run& whole, const std::vector<Run>& parts) const {
    for (const ir::LossTerm& term : graph_.losses()) {
      const size_t at = term.numerator.index();
      const double all = whole.values[at]->to(at::kDouble).item<double>();
      double sum = 0, size = 0;
      for (const Run& part : parts) {
        const double one = part.values[at]->to(at::kDouble).item<double>();
        sum += one;
        size += std::abs(one);
      }
      if (std::isnan(all) ? std::isnan(sum) : all == sum || std::abs(all - sum) <= kTolerance * size) continue;
      return error(place(term.numerator),
                   fmt::format("numeric check: the loss %{} of {} samples is {:g}, but those of each "
                               "alone add up to {:g}",
                               graph_.value(term.numerator).name, parts.size(), all, sum));
    }
    return {};
  }

  ir::Bindings sizes(int64_t samples) const { return made_up_.sizes(samples); }

 private:
  Location place(ValueId value) const {
    const TaskId maker = graph_.producer(value);
    return maker.valid() ? graph_.location(maker) : Location{};
  }

  // As [before, samples, after].
  at::Tensor of_samples(const at::Tensor& tensor, const ir::BatchLayout& layout, const Samples& all, int64_t first,
                        int64_t count) const {
    return by_sample(tensor, layout, made_up_.sizes(all.count)).narrow(1, first - all.first, count);
  }

  template <class Words>
  Result<void> compare(ValueId output, const at::Tensor& a, const at::Tensor& b, double allowed, Words&& words) const {
    const at::Tensor wrong = differences(a, b, allowed);
    if (!wrong.any().item<bool>()) return {};
    const int64_t place = at::argmax(wrong.reshape({-1}).to(at::kByte)).item<int64_t>();
    const auto number = [&](const at::Tensor& t) { return t.reshape({-1})[place].to(at::kDouble).item<double>(); };
    const int64_t after = a.dim() == 3 ? a.size(2) : 1, samples = a.dim() == 3 ? a.size(1) : 1;
    const auto [which, where] = words(place / std::max<int64_t>(after, 1) % std::max<int64_t>(samples, 1));
    return error(this->place(output),
                 fmt::format("numeric check: an element of %{}{} is {:g} {}, but {:g} {}", graph_.value(output).name,
                             which, number(a), where.first, number(b), where.second));
  }

  const Graph& graph_;
  const Float64Run& run_;
  SyntheticSamples made_up_;
};

/// Numbers of samples of the runs.
struct Runs {
  int64_t whole, singles, other;
  explicit Runs(int64_t samples)
      : whole(samples == 1 ? kLeastTogether : samples),
        singles(std::min(whole, kMostSingles)),
        other(whole > 2 ? 2 : kLeastTogether) {}
  int64_t samples() const { return whole + singles + other; }
};

std::string above(double bytes, double flops, const CompareLimits& limits) {
  if (bytes > limits.free_bytes) {
    return fmt::format("it needs {}, but {} are free", tools::bytes(bytes), tools::bytes(limits.free_bytes));
  }
  return flops > limits.flops ? fmt::format("it needs {:.0f} Gflop", flops / 1e9) : std::string();
}

/// Returns the reason why the graph is too large to run, or an empty text.
std::string too_large(const Float64Run& run, const Comparison& comparison, const Runs& runs, int64_t in_file,
                      const CompareLimits& limits) {
  const double flops = run.flops(comparison.sizes(1)) * static_cast<double>(runs.samples() + in_file);
  return above(run.peak_bytes(comparison.sizes(runs.whole)), flops, limits);
}

bool is_used(const Graph& graph, ValueId value) {
  return graph.any_use(value, [](Graph::Use) { return true; });
}

/// Returns inputs and random inputs of the file's graph that match those of the other graph.
Result<runtime::GraphValues> for_file(const Graph& file, const Graph& made, const runtime::GraphValues& given) {
  std::map<uint64_t, std::set<uint32_t>> random_inputs;  // random inputs of `made` by key
  for (const ValueId value : made.values()) {
    if (const ir::RandomInput* const random_input = made.random_input(value); random_input && is_used(made, value))
      random_inputs[random_input->key].insert(value.index());
  }
  runtime::GraphValues values(file.value_count());
  for (const ValueId value : file.values()) {
    const std::string_view name = file.value(value).name;
    if (file.kind(value) == ir::ValueKind::kInput) {
      const ValueId own = made.find(name);
      if (own.valid()) values[value.index()] = given[own.index()];
    }
    const ir::RandomInput* const random_input = file.random_input(value);
    if (random_input == nullptr || !is_used(file, value)) continue;
    const auto& same = random_inputs[random_input->key];
    if (same.size() != 1) return error(fmt::format("random input %{} occurs both with and without samples", name));
    values[value.index()] = given[*same.begin()];
  }
  return values;
}

/// All runs and their comparisons.
class Check {
 public:
  Check(const Graph& graph, const Float64Run& run, const SyntheticSamples& made_up, int64_t samples)
      : made_up_(made_up), comparison_(graph, run, made_up), runs_(samples), graph_(graph) {}

  const Comparison& comparison() const { return comparison_; }
  const Runs& runs() const { return runs_; }

  Result<void> run() {
    RANNC_ASSIGN(whole_, comparison_.at({0, runs_.whole}));
    singles_.clear();
    for (int64_t i = 0; i < runs_.singles; ++i) {
      RANNC_ASSIGN(Run single, comparison_.at({i, 1}));
      singles_.push_back(std::move(single));
    }
    RANNC_ASSIGN(other_, comparison_.at({0, runs_.other}));
    return {};
  }

  Result<void> compare() const {
    for (const Run& single : singles_) RANNC_TRY(comparison_.compare(whole_, single));
    RANNC_TRY(comparison_.compare(whole_, other_));
    if (runs_.singles == runs_.whole) RANNC_TRY(comparison_.compare_sums(whole_, singles_));
    return {};
  }

  Result<runtime::GraphValues> run_file(const Graph& file, const Float64Run& run, int64_t samples) const {
    RANNC_ASSIGN(const runtime::GraphValues given, made_up_.of(0, samples));
    RANNC_ASSIGN(const runtime::GraphValues values, for_file(file, graph_, given));
    ir::Bindings sizes = made_up_.sizes(samples);
    sizes.erase(graph_.batch_symbol());
    return run.run(values, sizes);
  }
  Result<void> compare_file(const Graph& file, const runtime::GraphValues& values, int64_t samples) const {
    return comparison_.compare(samples == runs_.whole ? whole_ : singles_.at(0), file, values);
  }
  bool distinguishes() const { return comparison_.distinguishes(whole_); }
  bool is_finite() const { return comparison_.is_finite(whole_); }

 private:
  const SyntheticSamples& made_up_;
  Comparison comparison_;
  Runs runs_;
  const Graph& graph_;
  Run whole_, other_;
  std::vector<Run> singles_;
};

Compared not_compared(const std::string& why) { return {why}; }

/// Whether the graph may not terminate on synthetic samples.
bool may_be_endless(const Graph& graph) {
  static const ir::Ops kLoop = "loop";
  for (const TaskId task : graph.tasks()) {
    const auto inputs = graph.inputs(task);
    const bool bounded = !inputs.empty() && inputs[0].valid();
    if (kLoop.contains(graph.op(task)) && !bounded && !graph.attributes(task).has("trips")) return true;
  }
  return false;
}

/// The graph of a file, made for this number of samples.
struct OfFile {
  const Graph& graph;
  const Float64Run& run;
  int64_t samples;
};

/// Compares with samples of one kind. Returns nothing if they do not suit the graph, with the reason in `why`. If only
/// the file's graph accepts the samples, this is an error only if they are `plain`, since others may be invalid
/// indices.
Result<std::optional<Compared>> compared(Check& check, const std::optional<OfFile>& file, bool plain,
                                         std::string& why) {
  runtime::GraphValues of_file;
  if (file) {
    auto ran = check.run_file(file->graph, file->run, file->samples);
    if (!ran.ok()) {
      why = ran.diagnostic().message;
      return std::optional<Compared>();
    }
    of_file = std::move(*ran);
  }
  if (const auto ran = check.run(); !ran.ok()) {
    why = ran.diagnostic().message;
    if (!file || !plain) return std::optional<Compared>();
    return error(ran.diagnostic().where, "numeric check: it does not run, but the file's own graph does: " + why);
  }
  if (!check.is_finite()) {
    why = "no output is finite";
    return std::optional<Compared>();
  }
  RANNC_TRY(check.compare());
  if (file) RANNC_TRY(check.compare_file(file->graph, of_file, file->samples));
  if (!check.distinguishes()) return std::optional(not_compared("its outputs are equal for all synthetic samples"));
  return std::optional(Compared{});
}

Result<Compared> compare(const Graph* file, const Graph& graph, int64_t samples, const ir::Bindings& symbols,
                         const CompareLimits& limits) {
  if (may_be_endless(graph)) return not_compared("it has a loop whose number of trips depends on data");
  WideTensors tensors;
  const auto own = Float64Run::load(graph, tensors);
  if (!own.ok()) return not_compared(own.diagnostic().message);
  std::optional<Float64Run> of_file;
  if (file != nullptr) {
    auto loaded = Float64Run::load(*file, tensors);
    if (!loaded.ok()) return not_compared(loaded.diagnostic().message);
    of_file = std::move(*loaded);
  }
  const auto complete = planning_sizes(graph, symbols, kSmallSizes);
  if (!complete.ok()) return not_compared(complete.diagnostic().message);
  const ir::Bindings& sizes = complete->sizes;
  std::string why;
  for (const auto kind : {SyntheticSamples::Kind::kVaried, SyntheticSamples::Kind::kPlain}) {
    const SyntheticSamples made_up(graph, sizes, kind);
    Check check(graph, *own, made_up, samples);
    const std::string large = too_large(*own, check.comparison(), check.runs(), file == nullptr ? 0 : samples, limits);
    if (!large.empty()) return not_compared(large);
    std::optional<OfFile> given;
    if (file != nullptr) given.emplace(OfFile{*file, *of_file, samples});
    RANNC_ASSIGN(const auto found, compared(check, given, kind == SyntheticSamples::Kind::kPlain, why));
    if (found) return *found;
  }
  return not_compared("on synthetic samples, " + why);
}

/// A loss, and the sum of the sizes of its terms.
struct LossNumber {
  double loss = 0, terms = 0;
};

/// Computes the loss of a mini-batch as the runtime does.
Result<LossNumber> loss_of(const Graph& graph, const runtime::TotalsRun& totals, const runtime::Tensors& counts,
                           const runtime::GraphValues& values) {
  RANNC_ASSIGN(const runtime::Tensors coefficients, totals.coefficients(counts));
  LossNumber sum;
  for (const ir::LossTerm& term : graph.losses()) {
    const double numerator = values[term.numerator.index()]->to(at::kDouble).item<double>();
    const double loss = term.loss(numerator, totals.scale(term, coefficients));
    sum.loss += loss;
    sum.terms += std::abs(loss);
  }
  return sum;
}

/// Counts these samples, and gives the inputs that hold coefficients their numbers.
Result<runtime::Tensors> count(const Graph& graph, const runtime::TotalsRun& totals, const ir::Bindings& sizes,
                               runtime::GraphValues& given) {
  const auto input = [&](const std::string& name) -> Result<at::Tensor> { return *given[graph.find(name).index()]; };
  RANNC_ASSIGN(runtime::Tensors counts, totals.count(input, sizes));
  RANNC_ASSIGN(const runtime::Tensors coefficients, totals.coefficients(counts));
  for (const ir::Totals::Given& each : graph.totals().given) {
    given[each.input.index()] = coefficients[each.coefficient];
  }
  return counts;
}

/// Returns the reason why either graph is too large to run, or an empty text. Absent weights are no reason.
std::string too_large_for_loss(const Graph& graph, const FileLoss& file, const SyntheticSamples& made_up,
                               const CompareLimits& limits) {
  WideTensors tensors;
  const ir::Bindings sizes = made_up.sizes(file.samples);
  for (const Graph* each : {&graph, &file.graph}) {
    const auto run = Float64Run::load(*each, tensors);
    if (!run.ok()) continue;
    const std::string large = above(run->peak_bytes(sizes), run->flops(sizes), limits);
    if (!large.empty()) return large;
  }
  return "";
}

/// Both losses for one kind of samples. An error: these do not suit the graphs.
struct BothLosses {
  double own = 0, of_file = 0, terms = 0;
};
Result<BothLosses> both_losses(const Graph& graph, const FileLoss& file, const SyntheticSamples& made_up) {
  WideTensors tensors;
  RANNC_ASSIGN(const Float64Run run, Float64Run::load(graph, tensors));
  RANNC_ASSIGN(const Float64Run file_run, Float64Run::load(file.graph, tensors));
  RANNC_ASSIGN(runtime::GraphValues given, made_up.of(0, file.samples));
  RANNC_ASSIGN(const runtime::GraphValues given_to_file, for_file(file.graph, graph, given));
  RANNC_ASSIGN(const runtime::TotalsRun totals, runtime::TotalsRun::load(run.graph()));
  ir::Bindings sizes = made_up.sizes(file.samples);
  RANNC_ASSIGN(const runtime::Tensors counts, count(graph, totals, sizes, given));
  RANNC_ASSIGN(const runtime::GraphValues values, run.run(given, sizes));
  RANNC_ASSIGN(const LossNumber own, loss_of(graph, totals, counts, values));
  if (file.graph.batch_symbol().empty()) sizes.erase(graph.batch_symbol());
  RANNC_ASSIGN(const runtime::GraphValues of_file, file_run.run(given_to_file, sizes));
  BothLosses both{own.loss, 0, own.terms};
  for (const auto& [output, weight] : file.outputs) {
    both.of_file += weight * of_file[output.index()]->to(at::kDouble).sum().item<double>();
  }
  if (!std::isfinite(both.of_file)) return error(fmt::format("the loss of the file is {}", both.of_file));
  return both;
}

}  // namespace

Result<Compared> compare_with_file(const Graph& file, const Graph& made, int64_t samples, const ir::Bindings& symbols,
                                   const CompareLimits& limits) {
  return compare(&file, made, samples, symbols, limits);
}

Result<Compared> compare_losses(const ir::Graph& graph, const std::optional<FileLoss>& file,
                                const ir::Bindings& symbols, const CompareLimits& limits) {
  RANNC_ASSIGN(Compared found, compare(nullptr, graph, kLeastTogether, symbols, limits));
  // A graph that does not run was already reported.
  if (file && found.not_compared.empty()) RANNC_TRY(compare_loss(graph, *file, symbols, limits));
  return found;
}

Result<Compared> compare_loss(const Graph& graph, const FileLoss& file, const ir::Bindings& symbols,
                              const CompareLimits& limits) {
  const auto complete = planning_sizes(graph, symbols, kSmallSizes);
  if (!complete.ok()) return not_compared(complete.diagnostic().message);
  const std::string large =
      too_large_for_loss(graph, file, SyntheticSamples(graph, complete->sizes, SyntheticSamples::Kind::kPlain), limits);
  if (!large.empty()) return Compared{large, true};
  std::string why;
  for (const auto kind : {SyntheticSamples::Kind::kVaried, SyntheticSamples::Kind::kPlain}) {
    const auto both = both_losses(graph, file, SyntheticSamples(graph, complete->sizes, kind));
    if (!both.ok()) {
      why = both.diagnostic().message;
      continue;
    }
    const double size = std::max({std::abs(both->own), std::abs(both->of_file), both->terms});
    if (std::abs(both->own - both->of_file) <= file.tolerance * size) return Compared{};
    const TaskId maker = file.graph.producer(file.outputs.front().first);
    return error(maker.valid() ? file.graph.location(maker) : Location{},
                 fmt::format("numeric check: the loss of {} samples is {:g}, but {:g} in the file's own graph",
                             file.samples, both->own, both->of_file));
  }
  return not_compared("on synthetic samples, " + why);
}

}  // namespace rannc::tools
