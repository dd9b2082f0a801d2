// Parser of plans. It checks the numbers of tasks, stages and devices, so that the verifier may rely on them.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "ir/internal/stage_time_fields.h"
#include "ir/internal/text_joint.h"
#include "ir/op/op.h"
#include "ir/plan/functions.h"
#include "ir/state/state.h"
#include "ir/text/text.h"
#include "ir/verify.h"

namespace rannc::ir {

namespace {

class PlanReader {
 public:
  explicit PlanReader(const std::string& file) : file_(file), graph_(file) {}

  Result<void> read(TextCursor& line) {
    if (in_schedule_) return schedule_line(line);
    if (functions_) return functions_line(line);
    RANNC_ASSIGN(const bool known, graph_.read(line));
    if (known) return closed_ ? Result<void>(line.fault(0, "graph statements must precede the plan")) : Result<void>();
    closed_ = true;
    for (const auto& [word, read] : kStatements) {
      if (!line.accept_word(word)) continue;
      RANNC_TRY((this->*read)(line));
      return line.expect_end();
    }
    if (line.accept_word("functions")) return begin_functions(line);
    if (line.peek_word() == "function") return function_line(line);
    if (line.peek_word() == "schedule") return schedule_line(line);
    std::string words = "a statement of a graph, or one of";
    for (const auto& [word, read] : kStatements) words += ' ' + std::string(word);
    return line.expected(words + " functions schedule");
  }

  Result<PlanDraft> finish_draft() && {
    RANNC_TRY(end());
    for (const Diagnostic& broken : verify(plan_)) {
      const bool of_cut =
          std::find(std::begin(kRulesOfCut), std::end(kRulesOfCut), broken.rule) != std::end(kRulesOfCut);
      if (of_cut || broken.rule.starts_with("G")) return broken;
    }
    PlanDraft draft;
    std::istringstream lines(schedule_text_);
    std::string word;
    lines >> word >> draft.schedule;
    if (word != "schedule" || draft.schedule.empty()) return error({file_}, "the plan has no schedule", "P13");
    std::getline(lines, word);
    for (std::string line; std::getline(lines, line);) draft.computations += computations(line) + '\n';
    draft.plan = std::move(plan_);
    Plan& plan = draft.plan;
    plan.routes.clear();
    plan.shared.clear();
    plan.stage_times.clear();
    plan.finish_times.clear();
    plan.begin_ns.clear();
    plan.predictions.clear();
    plan.functions.clear();
    plan.step_ns = plan.searched_ns = plan.lower_bound_ns = 0;
    return draft;
  }

  Result<Plan> finish() && {
    RANNC_TRY(end());
    RANNC_TRY(check_function_text());
    RANNC_TRY(as_result(faults_of_state(plan_.graph)));  // by which parameters have groups, and groups memory
    const PipelineShape shape = pipeline_shape(plan_);
    auto schedule = parse_schedule(schedule_text_, shape, file_);
    if (!schedule.ok()) {
      // A violated plan rule is more informative than a schedule error that follows from it.
      auto broken = verify(plan_);
      if (!broken.empty() && broken.front().rule != "P13") return as_result(std::move(broken)).diagnostic();
      Diagnostic fault = schedule.diagnostic();
      fault.where.line = fault.where.line != 0 && fault.where.line <= schedule_lines_.size()
                             ? schedule_lines_[fault.where.line - 1]
                             : 0;
      return fault;
    }
    plan_.schedule = *std::move(schedule);
    plan_.schedule.lowered = true;  // older texts lack the word; the rules require all lowered actions
    RANNC_TRY(as_result(verify(plan_)));
    return std::move(plan_);
  }

 private:
  using Statement = Result<void> (PlanReader::*)(TextCursor&);
  // What a cut must be like before anything can be derived from it.
  static constexpr std::string_view kRulesOfCut[] = {"P1", "P2", "P4", "P7", "P8", "P12", "P14", "P15"};

  // Completes the graph and its atoms.
  Result<void> end() {
    RANNC_TRY(graph_.check_end(file_));
    plan_.graph = std::move(graph_).take();
    fill_mixes(plan_.graph);
    if (functions_)
      return error({file_}, fmt::format("the functions of stage @s{} do not end", plan_.functions.size()));
    finish_atoms();
    return {};
  }

  // Words of a row without its transfers, reductions and steps.
  static std::string computations(const std::string& row) {
    std::istringstream words(row);
    std::string kept;
    for (std::string word; words >> word;) {
      const size_t number = word.find_first_of("0123456789");
      if (number == std::string::npos) continue;
      const std::string_view name = std::string_view(word).substr(0, number);
      const std::optional<ActionKind> kind = kind_with(name);
      if (name != "d" && !(kind && is_compute(*kind))) continue;
      kept += (kept.empty() ? "" : " ") + word;
    }
    return kept;
  }
  static const std::pair<std::string_view, Statement> kStatements[19];

  const Graph& graph() const { return graph_.graph(); }

  template <class IdType>
  Result<std::vector<IdType>> ids(TextCursor& line, std::string_view sigil, uint64_t limit, std::string_view what) {
    RANNC_ASSIGN(const std::vector<uint32_t> found, line.indices(sigil, limit, what));
    std::vector<IdType> list;
    list.reserve(found.size());
    for (const uint32_t index : found) list.emplace_back(index);
    return list;
  }
  Result<StageId> stage_id(TextCursor& line) {
    RANNC_ASSIGN(const uint32_t index, line.index("@s", plan_.stages.size(), "a stage"));
    return StageId(index);
  }
  Result<ValueId> value_id(TextCursor& line) {
    const size_t begin = line.column();
    RANNC_ASSIGN(const std::string name, line.name('%', "a value"));
    const ValueId found = graph().find(name);
    if (found.valid()) return found;
    return line.fault(begin, fmt::format("the graph has no value %{}", name));
  }
  // `word N`
  Result<uint64_t> field(TextCursor& line, std::string_view word, uint64_t limit = INT64_MAX) {
    RANNC_TRY(line.expect(word));
    return line.unsigned_integer("a number", limit);
  }
  Result<std::string> text_field(TextCursor& line, std::string_view word) {
    RANNC_TRY(line.expect(word));
    return line.quoted("a text");
  }
  // A number that must be the next of its kind.
  Result<void> next(TextCursor& line, std::string_view sigil, size_t count, std::string_view what) {
    const size_t begin = line.column();
    RANNC_ASSIGN(const uint32_t found, line.index(sigil, UINT32_MAX, what));
    if (found == count) return {};
    return line.fault(begin, fmt::format("expected {} {}{}, found {}{}", what, sigil, count, sigil, found));
  }

  Result<void> plan_line(TextCursor& line) {
    RANNC_ASSIGN(plan_.planner, line.quoted("the name of a planner"));
    RANNC_ASSIGN(plan_.seed, field(line, "seed", UINT64_MAX));
    return {};
  }

  Result<void> digests(TextCursor& line) {
    RANNC_ASSIGN(plan_.model_digest, text_field(line, "model"));
    RANNC_ASSIGN(plan_.cluster_digest, text_field(line, "cluster"));
    RANNC_ASSIGN(plan_.profile_digest, text_field(line, "profile"));
    return {};
  }

  Result<void> training(TextCursor& line) { return batches(line, true); }
  Result<void> inference(TextCursor& line) { return batches(line, false); }
  Result<void> batches(TextCursor& line, bool training) {
    plan_.training = training;
    RANNC_ASSIGN(const uint64_t mini_batch, field(line, "mini_batch", UINT32_MAX));
    plan_.mini_batch = static_cast<uint32_t>(mini_batch);
    RANNC_TRY(line.expect("micro_batches"));
    RANNC_TRY(line.expect("["));
    while (!line.accept("]")) {
      if (!plan_.micro_batches.empty()) RANNC_TRY(line.expect(","));
      RANNC_ASSIGN(const uint64_t samples, line.unsigned_integer("a number of samples", UINT32_MAX));
      plan_.micro_batches.push_back(static_cast<uint32_t>(samples));
    }
    plan_.loops = line.accept_word("loops");
    return {};
  }

  Result<void> optimizer(TextCursor& line) {
    RANNC_ASSIGN(plan_.optimizer.name, line.word("the name of an optimizer"));
    plan_.optimizer.amsgrad = line.accept_word("amsgrad");
    plan_.optimizer.grouping.no_decay = line.accept_word("no_decay");
    plan_.optimizer.grouping.no_decay_embeddings = line.accept_word("no_decay_embeddings");
    if (line.accept_word("average")) {
      RANNC_ASSIGN(plan_.optimizer.grouping.average, line.number("a weight"));
    }
    if (line.accept_word("momentum")) {
      RANNC_ASSIGN(plan_.optimizer.momentum, line.number("a momentum"));
    }
    return {};
  }

  Result<void> group(TextCursor& line) {
    const size_t begin = line.column();
    RANNC_ASSIGN(const std::string text, line.quoted("a group of parameters"));
    const Result<ParameterGroup> group = parse_group(text);
    if (!group.ok()) return line.fault(begin, group.diagnostic().message);
    plan_.optimizer.grouping.groups.push_back(*group);
    return {};
  }

  Result<void> size(TextCursor& line) {
    const size_t begin = line.column();
    RANNC_ASSIGN(const std::string symbol, line.word("a symbol"));
    RANNC_ASSIGN(const uint64_t size, line.unsigned_integer("a size", INT64_MAX));
    if (plan_.sizes.emplace(symbol, static_cast<int64_t>(size)).second) return {};
    return line.fault(begin, "a second size of `" + symbol + "`");
  }

  Result<void> step(TextCursor& line) {
    RANNC_ASSIGN(const uint64_t step_ns, line.unsigned_integer("a time", INT64_MAX));
    uint64_t searched = 0;
    if (line.accept_word("searched_ns")) {
      RANNC_ASSIGN(searched, line.unsigned_integer("a time", INT64_MAX));
    }
    RANNC_ASSIGN(const uint64_t bound, field(line, "lower_bound_ns"));
    plan_.step_ns = static_cast<int64_t>(step_ns);
    plan_.searched_ns = static_cast<int64_t>(searched);
    plan_.lower_bound_ns = static_cast<int64_t>(bound);
    return {};
  }

  Result<void> device(TextCursor& line) {
    RANNC_TRY(next(line, "d", plan_.devices.size(), "device"));
    PlanDevice device;
    RANNC_ASSIGN(device.name, line.quoted("the name of a device"));
    RANNC_ASSIGN(device.kind, text_field(line, "kind"));
    RANNC_ASSIGN(device.memory_bytes, field(line, "memory_bytes"));
    if (line.accept_word("type")) {
      const size_t begin = line.column();
      RANNC_ASSIGN(const std::string name, line.word("a type of devices"));
      const auto type = device_type(name);
      if (!type) return line.fault(begin, "there is no type of devices `" + name + "`, only cpu and cuda");
      device.type = *type;
    }
    if (line.accept_word("instructions")) {
      const size_t begin = line.column();
      RANNC_ASSIGN(const std::string name, line.word("an instruction set"));
      const auto set = instruction_set(name);
      if (!set) {
        return line.fault(begin, "there is no instruction set `" + name + "`, only sse41, avx, avx2 and avx512");
      }
      device.instructions = *set;
    }
    plan_.devices.push_back(std::move(device));
    return {};
  }

  Result<void> constant_tasks(TextCursor& line) {
    const size_t begin = line.column();
    if (!plan_.atoms.constant.empty()) return line.fault(begin, "a second list of constant tasks");
    plan_.atoms.constant.resize(graph().task_count());
    RANNC_ASSIGN(const auto tasks, line.indices("#", graph().task_count(), "a task"));
    for (const uint32_t task : tasks) plan_.atoms.constant[task] = true;
    finish_atoms();
    return {};
  }

  void finish_atoms() {
    Atoms& atoms = plan_.atoms;
    const size_t count = plan_.graph.task_count() != 0 ? plan_.graph.task_count() : graph().task_count();
    if (!atoms.atom_of.empty() || count == 0) return;
    atoms.constant.resize(count);
    atoms.atom_of.resize(count);
    for (size_t t = 0; t < count; ++t) {
      if (atoms.constant[t]) continue;
      atoms.atom_of[t] = AtomId::from(atoms.tasks.size());
      atoms.tasks.push_back(TaskId::from(t));
    }
  }

  Result<void> block(TextCursor& line) {
    finish_atoms();
    RANNC_TRY(next(line, "b", blocks_, "block"));
    RANNC_TRY(line.expect("tasks"));
    const size_t begin = line.column();
    RANNC_ASSIGN(const auto tasks, line.indices("#", graph().task_count(), "a task"));
    plan_.block_of.resize(plan_.atoms.tasks.size());
    for (const uint32_t task : tasks) {
      const AtomId atom = plan_.atoms.atom_of[task];
      if (!atom.valid())
        return line.fault(begin, fmt::format("task #{} is constant: it is in no block of its own", task));
      BlockId& block = plan_.block_of[atom.index()];
      if (block.valid()) return line.fault(begin, fmt::format("task #{} is in block b{} already", task, block.index()));
      block = BlockId(blocks_);
    }
    ++blocks_;
    return {};
  }

  Result<void> stage(TextCursor& line) {
    RANNC_TRY(next(line, "@s", plan_.stages.size(), "stage"));
    Stage stage;
    RANNC_TRY(line.expect("tasks"));
    RANNC_ASSIGN(stage.tasks, ids<TaskId>(line, "#", graph().task_count(), "a task"));
    RANNC_TRY(line.expect("devices"));
    RANNC_ASSIGN(stage.devices, ids<DeviceId>(line, "d", plan_.devices.size(), "a device"));
    stage.recompute = line.accept_word("recompute");
    stage.sharded = line.accept_word("sharded");
    plan_.stages.push_back(std::move(stage));
    return {};
  }

  Result<void> bucket(TextCursor& line) {
    RANNC_ASSIGN(const StageId stage, stage_id(line));
    auto& parameters = plan_.stages[stage.index()].buckets.emplace_back();
    do {
      RANNC_ASSIGN(parameters.emplace_back(), value_id(line));
    } while (!line.at_end());
    return {};
  }

  Result<void> route(TextCursor& line) {
    RANNC_TRY(next(line, "", plan_.routes.size(), "route"));
    Route route;
    RANNC_ASSIGN(route.value, value_id(line));
    RANNC_ASSIGN(route.from, stage_id(line));
    RANNC_TRY(line.expect("->"));
    RANNC_ASSIGN(route.to, stage_id(line));
    RANNC_TRY(line.expect("bytes"));
    RANNC_TRY(line.expect("["));
    RANNC_ASSIGN(route.bytes, line.dim());
    RANNC_TRY(line.expect("]"));
    route.gradient = line.accept_word("gradient");
    plan_.routes.push_back(std::move(route));
    return {};
  }

  Result<void> share(TextCursor& line) {
    SharedParameter shared;
    RANNC_ASSIGN(shared.parameter, value_id(line));
    RANNC_TRY(line.expect("owner"));
    RANNC_ASSIGN(shared.owner, stage_id(line));
    RANNC_TRY(line.expect("also"));
    RANNC_ASSIGN(shared.others, ids<StageId>(line, "@s", plan_.stages.size(), "a stage"));
    if (line.accept_word("sum_ns")) {
      RANNC_ASSIGN(const uint64_t sum, line.unsigned_integer("a number", INT64_MAX));
      shared.sum_ns = static_cast<int64_t>(sum);
    }
    plan_.shared.push_back(std::move(shared));
    return {};
  }

  template <class Number>
  static Result<void> amount(TextCursor& line, Number& into) {
    RANNC_ASSIGN(const uint64_t read, line.unsigned_integer("a number", INT64_MAX));
    into = static_cast<Number>(read);
    return {};
  }

  Result<void> time(TextCursor& line) {
    StageTime time;
    RANNC_ASSIGN(time.stage, stage_id(line));
    RANNC_ASSIGN(const uint64_t samples, field(line, "samples", UINT32_MAX));
    RANNC_ASSIGN(const uint64_t forward, field(line, "forward_ns"));
    RANNC_ASSIGN(const uint64_t backward, field(line, "backward_ns"));
    RANNC_ASSIGN(time.stashed_bytes, field(line, "stashed_bytes"));
    time.samples = static_cast<uint32_t>(samples);
    time.forward_ns = static_cast<int64_t>(forward);
    time.backward_ns = static_cast<int64_t>(backward);
    Result<void> read;
    for_each_optional_field(time, [&](const char* name, auto& into) {
      if (read.ok() && line.accept_word(name)) read = amount(line, into);
    });
    RANNC_TRY(read);
    plan_.stage_times.push_back(time);
    return {};
  }

  Result<void> finish_time(TextCursor& line) {
    FinishTime time;
    RANNC_ASSIGN(time.stage, stage_id(line));
    RANNC_ASSIGN(const uint64_t all_reduce, field(line, "all_reduce_ns"));
    RANNC_ASSIGN(const uint64_t optimizer, field(line, "optimizer_ns"));
    time.all_reduce_ns = static_cast<int64_t>(all_reduce);
    time.optimizer_ns = static_cast<int64_t>(optimizer);
    if (line.accept_word("gradients_ns")) RANNC_TRY(amount(line, time.gradients_ns));
    if (line.accept_word("gather_ns")) RANNC_TRY(amount(line, time.gather_ns));
    while (line.accept_word("sum_ns")) {
      SumTime& sum = time.sums.emplace_back();
      RANNC_TRY(amount(line, sum.sum_ns));
      RANNC_TRY(line.expect("ahead_ns"));
      RANNC_TRY(amount(line, sum.ahead_ns));
    }
    plan_.finish_times.push_back(time);
    return {};
  }

  Result<void> begin_time(TextCursor& line) {
    RANNC_TRY(next(line, "@s", plan_.begin_ns.size(), "stage"));
    RANNC_ASSIGN(const uint64_t ns, field(line, "ns"));
    plan_.begin_ns.push_back(static_cast<int64_t>(ns));
    return {};
  }

  Result<void> predict(TextCursor& line) {
    RANNC_TRY(next(line, "d", plan_.predictions.size(), "device"));
    Prediction prediction;
    RANNC_ASSIGN(const uint64_t busy, field(line, "busy_ns"));
    RANNC_ASSIGN(prediction.peak_bytes, field(line, "peak_bytes"));
    prediction.busy_ns = static_cast<int64_t>(busy);
    plan_.predictions.push_back(prediction);
    return {};
  }

  // `functions @s0`, then the statements of a joint graph up to `end @s0`, or `end @s0 kept [%x, …]` if the stage has
  // an R
  Result<void> begin_functions(TextCursor& line) {
    RANNC_TRY(next(line, "@s", plan_.functions.size(), "stage"));
    RANNC_TRY(line.expect_end());
    functions_ = std::make_unique<JointReader>(file_);
    return {};
  }

  Result<void> functions_line(TextCursor& line) {
    if (!functions_ends(line)) {
      RANNC_ASSIGN(const bool known, functions_->read(line));
      if (known) return {};
      return line.expected("a statement of a joint graph, or the end of the stage's functions");
    }
    RANNC_TRY(line.expect("end"));
    RANNC_TRY(next(line, "@s", plan_.functions.size(), "stage"));
    StageFunctions functions;
    RANNC_ASSIGN(functions.joint, std::move(*functions_).finish());
    functions_.reset();
    if (line.accept_word("kept")) {
      RANNC_ASSIGN(functions.kept, kept_values(line, functions.joint.graph));
    }
    plan_.functions.push_back(std::make_shared<const StageFunctions>(std::move(functions)));
    return line.expect_end();
  }

  Result<std::vector<ValueId>> kept_values(TextCursor& line, const Graph& graph) const {
    std::vector<ValueId> kept;
    RANNC_TRY(line.expect("["));
    while (!line.accept("]")) {
      if (!kept.empty()) RANNC_TRY(line.expect(","));
      const size_t begin = line.column();
      RANNC_ASSIGN(const std::string name, line.name('%', "a value"));
      kept.push_back(graph.find(name));
      if (!kept.back().valid()) return line.fault(begin, fmt::format("the functions have no value %{}", name));
    }
    return kept;
  }

  // Bodies inside the joint graph end with `end @b0`.
  static bool functions_ends(TextCursor line) { return line.accept_word("end") && line.accept("@s"); }

  // Collects the description of a function. It is compared at the end with what the joint graphs give.
  Result<void> function_line(TextCursor& line) {
    function_text_ += line.without_comment();
    function_text_ += '\n';
    return {};
  }

  Result<void> check_function_text() const {
    std::string expected;
    for (size_t s = 0; s < plan_.functions.size(); ++s) {
      const std::string lines = print_functions(*plan_.functions[s], s);
      if (function_text_.compare(expected.size(), lines.size(), lines) != 0) {
        return error({file_}, fmt::format("the functions of stage @s{} are not those of its joint graph", s), "P19");
      }
      expected += lines;
    }
    if (expected == function_text_) return {};
    return error({file_}, "functions of a stage that has none", "P19");
  }

  // Collects a line of the schedule, the rest of the text. It is parsed after everything that it refers to.
  Result<void> schedule_line(TextCursor& line) {
    in_schedule_ = true;
    schedule_text_ += line.without_comment();
    schedule_text_ += '\n';
    schedule_lines_.push_back(line.here().line);
    return {};
  }

  const std::string& file_;
  GraphReader graph_;
  Plan plan_;
  uint32_t blocks_ = 0;
  bool closed_ = false, in_schedule_ = false;
  std::unique_ptr<JointReader> functions_;  ///< of the stage whose functions are being read
  std::string function_text_;
  std::string schedule_text_;
  std::vector<uint32_t> schedule_lines_;  ///< line in the whole text of each line of `schedule_text_`
};

const std::pair<std::string_view, PlanReader::Statement> PlanReader::kStatements[19] = {
    {"plan", &PlanReader::plan_line},      {"digests", &PlanReader::digests},
    {"training", &PlanReader::training},   {"inference", &PlanReader::inference},
    {"optimizer", &PlanReader::optimizer}, {"group", &PlanReader::group},
    {"size", &PlanReader::size},           {"step_ns", &PlanReader::step},
    {"device", &PlanReader::device},       {"constant_tasks", &PlanReader::constant_tasks},
    {"block", &PlanReader::block},         {"stage", &PlanReader::stage},
    {"bucket", &PlanReader::bucket},       {"route", &PlanReader::route},
    {"share", &PlanReader::share},         {"time", &PlanReader::time},
    {"begin", &PlanReader::begin_time},    {"finish", &PlanReader::finish_time},
    {"predict", &PlanReader::predict},
};

}  // namespace

Result<PlanDraft> parse_draft(std::string_view text, const std::string& file) {
  PlanReader reader(file);
  RANNC_TRY(each_statement(text, file, "rannc.plan", [&](TextCursor& line) { return reader.read(line); }));
  auto draft = std::move(reader).finish_draft();
  if (!draft.ok()) return located(draft.diagnostic(), text, file);
  return draft;
}

Result<Plan> parse_plan(std::string_view text, const std::string& file) {
  PlanReader reader(file);
  RANNC_TRY(each_statement(text, file, "rannc.plan", [&](TextCursor& line) { return reader.read(line); }));
  auto plan = std::move(reader).finish();
  if (!plan.ok()) return located(plan.diagnostic(), text, file);
  return plan;
}

}  // namespace rannc::ir
