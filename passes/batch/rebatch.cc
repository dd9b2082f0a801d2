#include "passes/batch/rebatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/graph/rewriter.h"
#include "ir/match/match.h"
#include "ir/op/op.h"
#include "passes/batch/internal/form_choices.h"
#include "passes/batch/internal/made_samples.h"
#include "passes/batch/internal/sample_places.h"
#include "passes/batch/internal/task_forms.h"
#include "passes/batch/sample_rules.h"

namespace rannc::passes {

namespace {

using ir::BatchLayout;
using ir::Dim;
using ir::Graph;
using ir::Mix;
using ir::Shape;
using ir::ValueType;

/// The request.
struct Baked {
  const Graph& from;
  const Samples samples;
  const size_t axes;  ///< of inputs that may have samples, the first so many
  const std::set<std::string> parameters;
};

/// One copy of the graph with one choice of forms.
class Walk {
 public:
  /// All have to outlive it.
  Walk(const Baked& baked, IntegerTables& tables, FormChoices& choices)
      : from_(baked.from),
        samples_(baked.samples),
        choices_(choices),
        rewriter_(from_),
        made_(from_, rewriter_, samples_, baked.parameters, tables),
        reached_(from_.value_count()),
        rests_on_(from_.value_count()) {
    start(baked.axes);
  }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  Result<void> run() {
    for (const TaskId task : from_.tasks()) {
      current_ = operands_rest_on(task);
      const int mixed = mixed_;
      const auto adapted = adapt(task);
      for (const ValueId output : from_.outputs(task)) rests_on_[output.index()] = current_;
      if (!adapted.ok() || (mixed == 0 && mixed_ > 0)) failure_ = current_;
      RANNC_TRY(adapted);
    }
    return {};
  }

  Graph finish() && { return std::move(rewriter_).finish(); }
  /// Checks for results that mix samples, or select among them.
  int mixed() const { return mixed_; }
  /// Choices that the failure rests on; where there was none, those of the first result that mixes samples.
  const ChoiceSet& failure() const { return failure_; }
  size_t tables() const { return made_.changed(); }
  size_t random_per_sample() const { return made_.random_per_sample(); }
  const std::map<std::string, std::string>& parts() const { return made_.parts(); }
  size_t resized() const { return resized_; }

 private:
  /// A way to build a task.
  struct Way {
    TaskForm form;
    std::vector<ValueId> operands;
    std::vector<ValueType> types;
    bool as_it_is = false;
  };

  Graph& to() { return rewriter_.graph(); }

  // Gives inputs their samples: along the first of so many axes that has as many.
  void start(size_t axes) {
    to().set_batch_symbol(samples_.symbol);
    for (const ValueId input : from_.inputs()) {
      const auto& shape = from_.type(input).shape;
      reached_[input.index()] = true;
      if (!shape) continue;
      const auto end = shape->begin() + static_cast<int64_t>(std::min(axes, shape->size()));
      const auto at = std::find(shape->begin(), end, Dim(samples_.baked));
      if (at == end) continue;
      const BatchLayout place{static_cast<int32_t>(at - shape->begin()), 1, 1};
      to().set_type(rewriter_.map(input), with_samples(from_.type(input), place, samples_));
    }
  }

  Result<void> adapt(TaskId task) {
    std::vector<ValueId> operands;
    bool same = true;
    for (const ValueId operand : from_.inputs(task)) {
      operands.push_back(rewriter_.map(operand));
      if (operand.valid()) same = same && to().type(operands.back()) == from_.type(operand);
    }
    reach(task);
    if (same && returns_random_inputs(task)) return return_random_inputs(task, operands);
    if (same) {
      rewriter_.copy(task);
      return {};
    }
    if (!from_.op(task).known()) return refused(task, error("its type rule is not known"));
    if (picks_samples(task, operands)) return pick(task, std::move(operands));
    RANNC_ASSIGN(Way way, find(task, operands));
    RANNC_TRY(check_scale(task, way));
    RANNC_TRY(number_picks(task, way));
    return build(task, way);
  }

  // Dividing a sum over samples by a multiple of their number may hide a mean.
  Result<void> check_scale(TaskId task, const Way& way) const {
    static const ir::Ops kMul = "mul", kDiv = "div";
    const ir::OpInfo& op = from_.op(task);
    if (!way.types.front().batch.is_partial() || !(kMul.contains(op) || kDiv.contains(op))) return {};
    for (const ValueId operand : from_.inputs(task)) {
      const auto number = operand.valid() ? ir::scalar_constant(from_, operand) : std::nullopt;
      if (!number || *number == 0) continue;
      const double divisor = kDiv.contains(op) ? *number : 1 / *number;
      const double times = std::round(divisor) / static_cast<double>(samples_.baked);
      const bool counts =
          std::abs(divisor - std::round(divisor)) < 1e-6 * std::abs(divisor) && times == std::round(times);
      if (!counts || std::round(divisor) == 1 || (samples_.baked == 1 && divisor == 2)) continue;
      return refused(task, error(fmt::format("a sum over samples is divided by {:g}, which may be a multiple of their "
                                             "number; specify the loss by --loss, or export a mean",
                                             divisor)));
    }
    return {};
  }

  ChoiceSet operands_rest_on(TaskId task) const {
    ChoiceSet all;
    for (const ValueId operand : from_.inputs(task)) {
      if (operand.valid()) all |= rests_on_[operand.index()];
    }
    return all;
  }

  // Sizes of a value are independent of its elements, even if it depends on an input.
  void reach(TaskId task) {
    const auto operands = from_.inputs(task);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].valid() || !reached_[operands[i].index()]) continue;
      if (from_.op(task).known() && from_.op(task).operand(i).role == ir::Role::kShape) continue;
      for (const ValueId output : from_.outputs(task)) reached_[output.index()] = true;
    }
  }

  Diagnostic refused(TaskId task, const Diagnostic& why) const {
    return error(from_.location(task), fmt::format("{} has a fixed batch size of {} sample{}: {}", from_.op(task).name,
                                                   samples_.baked, samples_.baked == 1 ? "" : "s", why.message));
  }

  // As it is, or with other sizes; else with operands that are given samples. What mixes samples comes last.
  Result<Way> find(TaskId task, const std::vector<ValueId>& operands) {
    std::optional<Diagnostic> why;
    if (samples_.baked == 1 && reads_random_inputs(task)) {
      if (auto way = with_samples_added(task, operands, why, Additions::kRandomInputs)) return std::move(*way);
      why.reset();
    }
    std::vector<Way> accepted;
    const auto types = ir::type_list(to(), operands);
    std::vector<TaskForm> forms = task_forms(from_, task, types, nullptr, samples_);
    for (size_t i = 0; i < forms.size(); ++i) {
      auto found = types_of(forms[i], types, from_, task, samples_);
      if (!found.ok() && !why) why = found.diagnostic();
      if (!found.ok() || is_repeated(accepted, *found)) continue;
      accepted.push_back({forms[i], first(operands, forms[i].operands), std::move(*found), i == 0});
    }
    const bool mixes = !accepted.empty() && std::all_of(accepted.begin(), accepted.end(),
                                                        [&](const Way& way) { return is_mixed(way.types); });
    if (accepted.empty() || mixes) {
      if (auto way = with_samples_added(task, operands, why, Additions::kAll)) return std::move(*way);
    }
    if (accepted.empty()) return refused(task, *why);
    if (accepted.size() == 1) return std::move(accepted.front());
    prefer_own_axis(task, accepted);
    const auto [form, choice] = choices_.of(kind(task, types), accepted.size(), current_);
    current_ |= choice;
    return std::move(accepted[form]);
  }

  static bool is_repeated(const std::vector<Way>& ways, const std::vector<ValueType>& types) {
    return std::any_of(ways.begin(), ways.end(), [&](const Way& way) { return way.types == types; });
  }
  // Of the results of a reshape those come first whose samples have an axis to themselves, then the one in front. In a
  // view of [1, -1, …], the -1 would otherwise absorb the batch axis.
  void prefer_own_axis(TaskId task, std::vector<Way>& ways) const {
    static const ir::Ops kReshape{"reshape", "squeeze"};
    if (!kReshape.contains(from_.op(task))) return;
    const auto shared = [](const Way& way) {
      const BatchLayout& layout = way.types.front().batch;
      return !(layout.outer == Dim(1) && layout.inner == Dim(1));
    };
    std::stable_partition(ways.begin(), ways.end(), [&](const Way& way) { return !shared(way); });
  }
  static bool is_mixed(const std::vector<ValueType>& types) {
    return std::any_of(types.begin(), types.end(), [](const ValueType& type) { return type.batch.mix == Mix::kMixed; });
  }
  static std::vector<ValueId> first(const std::vector<ValueId>& operands, size_t count) {
    return {operands.begin(), operands.begin() + static_cast<int64_t>(std::min(count, operands.size()))};
  }

  std::string kind(TaskId task, const std::vector<const ValueType*>& types) const {
    const BatchLayout& layout = types[0]->batch;
    return fmt::format("{} {} {} {} {} {}", from_.op(task).name, ir::str(*types[0]->shape), layout.axis,
                       layout.outer.str(), layout.inner.str(), ir::str(*from_.type(from_.outputs(task)[0]).shape));
  }

  /// Operands of a task with samples that they do not have so far.
  using Added = std::vector<std::pair<size_t, BatchLayout>>;

  // Operands that depend on no input: one, somewhere; two; or all of them.
  std::vector<Added> additions(TaskId task, const std::vector<ValueId>& operands) {
    std::vector<Added> singles;
    const auto old = from_.inputs(task);
    for (size_t i = 0; i < old.size(); ++i) {
      if (!old[i].valid() || reached_[old[i].index()] || to().type(operands[i]).batch.has_batch()) continue;
      if (!from_.type(old[i]).shape) continue;
      for (const BatchLayout& place : possible_places(*from_.type(old[i]).shape, samples_))
        singles.push_back({{i, place}});
    }
    std::vector<Added> found = singles;
    for (size_t i = 0; i < singles.size() && found.size() < kMostAdditions; ++i) {
      for (size_t j = i + 1; j < singles.size(); ++j) {
        if (singles[i][0].first != singles[j][0].first) found.push_back({singles[i][0], singles[j][0]});
      }
    }
    for (size_t i = 0; i < singles.size(); ++i) {  // as many as there are, at one place
      Added all;
      for (const Added& single : singles) {
        const bool again = !all.empty() && all.back().first == single[0].first;
        if (!again && single[0].second == singles[i][0].second) all.push_back(single[0]);
      }
      if (all.size() > 2) found.push_back(std::move(all));
    }
    return found;
  }

  /// Which operands may be given samples. One sample's random numbers fit others of its size as they are, the same for
  /// all samples of a mini-batch; a model that draws them as it draws any means each sample to have its own.
  enum class Additions : uint8_t { kAll, kRandomInputs };

  std::optional<Way> with_samples_added(TaskId task, const std::vector<ValueId>& operands,
                                        std::optional<Diagnostic>& why, Additions which) {
    const auto random = [&](const auto& one) { return made_.is_random(from_.inputs(task)[one.first]); };
    for (const Added& added : additions(task, operands)) {
      if (which == Additions::kRandomInputs && !std::all_of(added.begin(), added.end(), random)) continue;
      std::vector<ValueType> given;
      given.reserve(added.size());
      auto types = ir::type_list(to(), operands);
      for (const auto& [operand, place] : added) {
        given.push_back(with_samples(from_.type(from_.inputs(task)[operand]), place, samples_));
        types[operand] = &given.back();
      }
      for (TaskForm& form : task_forms(from_, task, types, nullptr, samples_)) {
        auto found = types_of(form, types, from_, task, samples_);
        if (!found.ok() || is_mixed(*found)) continue;
        Way way{form, first(operands, form.operands), std::move(*found)};
        if (const auto failure = add_samples(task, added, types, way.operands)) {
          why = *failure;
          continue;
        }
        return way;
      }
    }
    return std::nullopt;
  }

  bool reads_random_inputs(TaskId task) const {
    const auto operands = from_.inputs(task);
    return std::any_of(operands.begin(), operands.end(), [&](ValueId operand) {
      return operand.valid() && !reached_[operand.index()] && made_.is_random(operand);
    });
  }

  // Random numbers that depend on no input, a row for each sample, as a sample generator outputs them.
  bool returns_random_inputs(TaskId task) const {
    const auto outputs = from_.outputs(task);
    return std::any_of(outputs.begin(), outputs.end(), [&](ValueId output) {
      const auto& given = from_.outputs();
      if (std::find(given.begin(), given.end(), output) == given.end()) return false;
      const auto& shape = from_.type(output).shape;
      return !reached_[output.index()] && made_.is_random(output) && shape && !shape->empty() &&
             shape->front() == Dim(samples_.baked);
    });
  }

  Result<void> return_random_inputs(TaskId task, const std::vector<ValueId>& operands) {
    std::optional<Diagnostic> why;
    const auto way = with_samples_added(task, operands, why, Additions::kAll);
    if (way && way->types.front().batch == BatchLayout{0, 1, 1}) return build(task, *way);
    return refused(task, error("its random numbers are not provably separate for each sample"));
  }

  // `types`: of the operands with these samples.
  std::optional<Diagnostic> add_samples(TaskId task, const Added& added, const std::vector<const ValueType*>& types,
                                        std::vector<ValueId>& operands) {
    const auto component = component_of(task, types);
    for (const auto& [operand, place] : added) {
      if (operand >= operands.size()) continue;
      const ValueId old = from_.inputs(task)[operand];
      const bool numbers = operand == kIndices && component && samples_.baked == 1;
      const auto with =
          numbers ? made_.numbered_from_one(old, place, *component, types[0]->batch.inner) : made_.of(old, place);
      if (!with.ok()) return with.diagnostic();
      operands[operand] = *with;
    }
    return std::nullopt;
  }

  Result<void> build(TaskId task, const Way& way) {
    std::vector<std::string> names;
    for (const ValueId output : from_.outputs(task)) names.emplace_back(from_.value(output).name);
    const TaskId built = to().add_task(*way.form.op, way.operands, way.form.attributes, names, from_.location(task));
    RANNC_TRY(ir::infer_types(to(), built));
    for (size_t i = 0; i < names.size(); ++i) rewriter_.replace(from_.outputs(task)[i], to().outputs(built)[i]);
    mixed_ += is_mixed(way.types);
    resized_ += !way.as_it_is;
    return {};
  }

  // --- look-ups by position along the samples' axis

  // Of an operator with indices: which component of them picks along the axis where its data has samples.
  std::optional<int64_t> component_of(TaskId task, const std::vector<const ValueType*>& types) {
    const ir::OpInfo& op = from_.op(task);
    if (op.picks == nullptr || !types[0]->batch.has_batch()) return std::nullopt;
    return op.picks({op, types, from_.attributes(task), samples_.symbol}, types[0]->batch.axis);
  }

  bool picks_samples(TaskId task, const std::vector<ValueId>& operands) {
    return component_of(task, ir::type_list(to(), operands)) && !reached_[from_.inputs(task)[kIndices].index()];
  }

  // The indices of a table that holds each sample's own number.
  Result<void> pick(TaskId task, std::vector<ValueId> operands) {
    const ValueId index = from_.inputs(task)[kIndices];
    std::optional<Diagnostic> why;
    for (const BatchLayout& place : possible_places(*from_.type(index).shape, samples_)) {
      auto types = ir::type_list(to(), operands);
      const ValueType given = with_samples(from_.type(index), place, samples_);
      types[kIndices] = &given;
      TaskForm form{&from_.op(task), from_.attributes(task), operands.size()};
      auto found = types_of(form, types, from_, task, samples_);
      if (!found.ok() || is_mixed(*found)) continue;
      why = add_samples(task, {{kIndices, place}}, types, operands);
      if (why) continue;
      const Way way{form, operands, std::move(*found)};
      const auto own = check_picks(task, way);
      if (own.ok()) return build(task, way);
      why = own.diagnostic();
    }
    return refused(task, why ? *why : error("it selects samples by indices that are the same for all of them"));
  }

  // Uses a task without readers, so that names stay free for the one that is built.
  Result<void> check_picks(TaskId task, const Way& way) {
    std::vector<std::string> names;
    for (const ValueId output : from_.outputs(task))
      names.push_back(fmt::format("{}.judged", from_.value(output).name));
    const TaskId judged = to().add_task(*way.form.op, way.operands, way.form.attributes, names, from_.location(task));
    RANNC_TRY(ir::infer_types(to(), judged));
    return check_sample_index(to(), judged);
  }

  // Indices that follow from samples, made for the first one, whose number is 0: those of the others lie as many
  // samples further on.
  Result<void> number_picks(TaskId task, Way& way) {
    if (samples_.baked != 1 || from_.op(task).picks == nullptr || check_picks(task, way).ok()) return {};
    const auto types = ir::type_list(to(), way.operands);
    const auto component = component_of(task, types);
    const BatchLayout place = types[kIndices]->batch;
    if (!component || !place.has_batch()) return {};
    RANNC_ASSIGN(way.operands[kIndices],
                 made_.numbered_from_one(from_.inputs(task)[kIndices], place, *component, types[0]->batch.inner));
    const auto own = check_picks(task, way);
    return own.ok() ? Result<void>() : refused(task, own.diagnostic());
  }

  static constexpr size_t kMostAdditions = 256;
  static constexpr size_t kIndices = 1;  // operand of what picks

  const Graph& from_;
  const Samples& samples_;
  FormChoices& choices_;
  ir::Rewriter rewriter_;
  MadeSamples made_;
  std::vector<bool> reached_;  // by inputs
  std::vector<ChoiceSet> rests_on_;
  ChoiceSet current_, failure_;  // of the task that is adapted; of the failure
  int mixed_ = 0;
  size_t resized_ = 0;
};

/// The first extent of all inputs.
std::optional<int64_t> first_extent(const Graph& graph) {
  std::optional<int64_t> found;
  for (const ValueId input : graph.inputs()) {
    const auto& shape = graph.type(input).shape;
    if (!shape || shape->empty()) continue;
    if (!shape->front().is_constant()) return std::nullopt;
    const int64_t extent = shape->front().constant();
    if (extent < 1 || (found && *found != extent)) return std::nullopt;
    found = extent;
  }
  return found;
}

/// The first extent that all outputs share and an input has, where inputs differ: those without it may be what all
/// samples share, as a mask. One sample alone says nothing.
std::optional<int64_t> extent_of_outputs(const Graph& graph) {
  std::optional<int64_t> found;
  for (const ValueId output : graph.outputs()) {
    const auto& shape = graph.type(output).shape;
    if (!shape || shape->empty() || !shape->front().is_constant()) return std::nullopt;
    if (found && *found != shape->front().constant()) return std::nullopt;
    found = shape->front().constant();
  }
  const bool read = found && std::any_of(graph.inputs().begin(), graph.inputs().end(), [&](ValueId input) {
                      const auto& shape = graph.type(input).shape;
                      return shape && !shape->empty() && shape->front() == Dim(*found);
                    });
  return read && *found > 1 ? found : std::nullopt;
}

bool has_symbol(const Graph& graph, const std::string& name) {
  return std::any_of(graph.inputs().begin(), graph.inputs().end(), [&](ValueId input) {
    const auto& shape = graph.type(input).shape;
    return shape && std::any_of(shape->begin(), shape->end(), [&](const Dim& dim) { return dim.uses(name); });
  });
}

/// What one choice made of the graph.
struct Rebatched {
  Graph graph;
  size_t resized, tables, random_per_sample;
  std::map<std::string, std::string> parts;
};

Result<Rebatched> rebatched(const Baked& baked, const Evaluator* evaluator) {
  FormChoices choices;
  IntegerTables tables(baked.from, evaluator);
  std::optional<Diagnostic> why;
  std::optional<Rebatched> mixing;
  const int most = static_cast<int>(
      std::clamp<int64_t>(Rebatch::kMostTasks / (baked.from.task_count() + 1), 1, Rebatch::kMostAlternatives));
  for (int tries = 0; tries < most; ++tries) {
    Walk walk(baked, tables, choices);
    const auto done = walk.run();
    if (!done.ok() && !why) why = done.diagnostic();
    const bool apart = done.ok() && walk.mixed() == 0;
    if (apart || (done.ok() && !mixing)) {
      mixing = Rebatched{{}, walk.resized(), walk.tables(), walk.random_per_sample(), walk.parts()};
      mixing->graph = std::move(walk).finish();
    }
    if (apart) return std::move(*mixing);
    if (!choices.advance(walk.failure())) break;
  }
  if (mixing) return std::move(*mixing);  // a mean over samples is taken apart later
  return *why;
}

// The graph with other names of stored tensors, where these are free.
Graph renamed(const Graph& graph, const std::map<std::string, std::string>& names) {
  std::map<ValueId, std::string> found;
  std::vector<bool> keep(graph.value_count(), true);
  for (const auto& [now, wanted] : names) {
    const ValueId value = graph.find(now);
    if (!value.valid() || graph.find(wanted).valid() || !found.emplace(value, wanted).second) continue;
    keep[value.index()] = false;
  }
  ir::Rewriter rewriter(graph, keep);
  for (const auto& [value, name] : found) {
    const Graph::Value old = graph.value(value);
    rewriter.replace(value, rewriter.graph().add_value(old.kind, name, old.type, old.data));
  }
  for (const TaskId task : graph.tasks()) rewriter.copy(task);
  return std::move(rewriter).finish();
}

}  // namespace

std::string Rebatch::spelling() const {
  return baked_.samples ? fmt::format("rebatch{{{}}}", *baked_.samples) : std::string(name());
}

Result<Outcome> Rebatch::run(Graph& graph, PassContext& context) const {
  if (!graph.batch_symbol().empty()) return Outcome{};
  std::set<std::string> parameters;
  for (const auto& [name, kind] : baked_.file.listed) {
    if (kind == ir::ValueKind::kParameter) parameters.insert(name);
  }
  std::string symbol = "batch";
  while (has_symbol(graph, symbol)) symbol += "_";
  const auto common = baked_.samples ? std::nullopt : first_extent(graph);
  const auto found = baked_.samples ? baked_.samples : common ? common : extent_of_outputs(graph);
  if (!found) return error("the inputs have no common first extent that could be the number of samples");
  const Samples samples{*found, symbol};
  Graph needed = graph.clone();
  ir::remove_dead(needed);  // what nothing reads may mix samples
  RANNC_ASSIGN(Rebatched made,
               rebatched({needed, samples, common ? size_t{1} : size_t{2}, parameters}, context.evaluator));
  ir::remove_dead(made.graph);
  made.graph = renamed(made.graph, made.parts);
  if (baked_.judge) RANNC_TRY(baked_.judge(graph, made.graph, samples.baked, context));
  graph = std::move(made.graph);
  const auto plural = [](auto number, const char* what) {
    return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
  };
  context.remarks.push_back(
      {{},
       fmt::format("made the static batch size of {} symbolic: {} and {} changed", plural(samples.baked, "sample"),
                   plural(made.resized, "task"), plural(made.tables, "table"))});
  if (samples.baked == 1 && made.random_per_sample > 0) {
    context.remarks.push_back(
        {{},
         fmt::format("{} {} now independent per sample (exported with batch size 1)",
                     plural(made.random_per_sample, "random input"), made.random_per_sample == 1 ? "is" : "are")});
  }
  return Outcome{true};
}

}  // namespace rannc::passes
