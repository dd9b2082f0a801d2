// Sums what the programs of a stage hold.
#include "ir/plan/function_memory.h"

#include <algorithm>
#include <set>

#include "ir/op/op.h"
#include "ir/plan/buckets.h"
#include "ir/program/program_memory.h"

namespace rannc::ir {

namespace {

using Ids = std::vector<ValueId>;

/// The programs are followed, not run.
LoweringOptions for_memory(const Plan& plan, const Joint& joint, const FunctionTable& table) {
  return {.device = device_type(plan),
          .origins = joint.origins,
          .loops = plan.loops,
          .calls = false,
          .resident = resident_values(joint.graph, table)};
}

StagePorts ports_of(const Plan& plan, StageId stage) {
  StagePorts ports = own_ports(plan.functions[stage.index()]->joint);
  ports.buckets = parts_of_buckets(plan, stage);
  return ports;
}

}  // namespace

Ids sample_inputs(const Plan& plan, const Graph& joint) {
  Ids found;
  for (const ValueId value : joint.values()) {
    if (joint.kind(value) != ValueKind::kInput) continue;
    const ValueId given = plan.graph.find(joint.value(value).name);
    if (given.valid() && plan.graph.kind(given) == ValueKind::kInput) found.push_back(value);
  }
  return found;
}

FunctionFollower::FunctionFollower(const Plan& plan, StageId stage)
    : stage_(*plan.functions[stage.index()]),
      table_(function_table(stage_)),
      lowering_(stage_.joint.graph, for_memory(plan, stage_.joint, table_)),
      sums_(sum_bytes_of_buckets(plan, stage)),
      device_(device_type(plan)),
      trains_(plan.training),
      one_pass_(plan.micro_batches.size() == 1),
      specs_(stage_specs(stage_.joint, stage_.kept.has_value(), table_, ports_of(plan, stage))),
      samples_(sample_inputs(plan, stage_.joint.graph)),
      instructions_(instruction_sets(plan, stage)) {
  saved_.assign(stage_.joint.graph.value_count(), false);
  kept_ = saved_;
  for (const ValueId value : table_.saved) saved_[views().base(value).index()] = true;
  for (const ValueId value : table_.recompute) kept_[views().base(value).index()] = true;
}

const Program& FunctionFollower::program(ProgramKind kind) {
  std::optional<Program>& made = programs_[kind];
  if (!made) made = lowering_.lower(*specs_[kind]).value();
  return *made;
}

int64_t FunctionFollower::held(ProgramMemory& memory, const Ids& values) const {
  std::set<ValueId> bases;
  int64_t total = 0;
  for (const ValueId value : values) {
    const ValueId base = views().base(value);
    const bool counts = !lowering_.is_resident(base) && !std::binary_search(samples_.begin(), samples_.end(), base);
    if (counts && bases.insert(base).second) total += memory.bytes(base);
  }
  return total;
}

void FunctionFollower::follow(const Bindings& sizes, StageTime& time) {
  using enum ProgramKind;
  ProgramMemory memory({stage_.joint, views(), instructions_, samples_, sums_, device_}, sizes);
  int64_t samples = 0;
  for (const ValueId value : samples_) samples += memory.bytes(value);
  const auto held = [&](const Ids& values) { return static_cast<uint64_t>(samples + this->held(memory, values)); };
  const auto peak = [&](ProgramKind kind, ProgramMemory::Run run = {}, int64_t more = 0) {
    return static_cast<uint64_t>(std::max<int64_t>(0, more + memory.peak(program(kind), run)));
  };
  auto& [usual, first, last] = time.peaks;
  usual[kEvaluate] = peak(kEvaluate, {}, samples);
  const bool does_nothing = stage_.joint.outputs.empty() && table_.saved.empty() && stage_.joint.gradients.empty();
  if (!trains_ || does_nothing) return;
  time.stashed_bytes = held(table_.saved);
  time.kept_bytes = held(table_.recompute);
  time.pending_bytes = held(table_[FunctionKind::kWeight].arguments);
  usual[kForward] = usual[kBegin] = peak(kForward, {}, samples);
  if (stage_.kept) {
    usual[kBegin] = peak(kBegin, {}, samples);
    usual[kRebuild] = peak(kRebuild, {.keeps_arguments = true});
  }
  usual[kInput] = peak(kInput);
  for (const ProgramKind kind : {kWeight, kBackward}) {
    usual[kind] = peak(kind);
    first[kind] = peak(kind, {.creates_sums = true, .marks = one_pass_});
    if (!one_pass_ && !sums_.empty()) last[kind] = peak(kind, {.marks = true});
  }
}

StepMemory FunctionFollower::step(const Bindings& sizes) {
  const Graph& graph = stage_.joint.graph;
  ProgramMemory memory({stage_.joint, views(), instructions_, samples_, {}, device_}, sizes);
  StepMemory found;
  std::set<ValueId> counted;
  for (const FunctionKind kind : {FunctionKind::kLoad, FunctionKind::kStep}) {
    for (const TaskId task : table_[kind].tasks) {
      for (const ValueId output : graph.outputs(task)) {
        const bool used =
            graph.any_use(output, [&](Graph::Use use) { return table_.place[use.task.index()] > FunctionKind::kStep; });
        const ValueId base = views().base(output);
        if (used && graph.producer(base).valid() && counted.insert(base).second) found.fixed += memory.bytes(base);
      }
    }
  }
  const StageFunction& end = table_[FunctionKind::kStepEnd];
  for (const ValueId total : end.arguments) found.totals += memory.sum_bytes(total);
  for (const ValueId part : end.results) found.late += memory.sum_bytes(part);
  found.end = memory.peak(program(ProgramKind::kEnd), {.creates_sums = true});
  return found;
}

}  // namespace rannc::ir
