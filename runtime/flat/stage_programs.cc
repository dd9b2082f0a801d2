// Builds flat programs of the functions of a stage.
#include "runtime/flat/stage_programs.h"

#include <algorithm>
#include <set>

#include "ir/op/op.h"

namespace rannc::runtime {

namespace {

using ir::FunctionKind;
using Ids = std::vector<ValueId>;

Ids joined(const Ids& a, const Ids& b) {
  Ids both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

class ProgramBuilder {
 public:
  ProgramBuilder(const StageParts& stage, SizeTable& sizes)
      : joint_(stage.joint),
        recomputes_(stage.kept.has_value()),
        table_(stage.table),
        places_(stage.places),
        kernels_(stage.kernels),
        device_(stage.device),
        loops_(stage.loops),
        sizes_(sizes) {}

  Result<StagePrograms> build(SizeTable& load_sizes) {
    StagePrograms made;
    made.totals = table_[FunctionKind::kStepEnd].arguments;
    find_sums(made.totals);
    made.loaded = read_elsewhere(FunctionKind::kLoad);
    made.stepped = read_elsewhere(FunctionKind::kStep);
    RANNC_ASSIGN(made.load, program(FunctionKind::kLoad, {}, made.loaded, load_sizes));
    RANNC_ASSIGN(made.step, program(FunctionKind::kStep, {}, made.stepped, sizes_));
    for (const ValueId value : table_[FunctionKind::kForward].arguments) {
      (is_random(value) ? random_inputs_ : made.inputs).push_back(value);
    }
    const Ids outputs = joined(places_.outputs, places_.moments);
    RANNC_ASSIGN(made.evaluate, program(FunctionKind::kForward, made.inputs, places_.outputs, sizes_));
    RANNC_ASSIGN(made.forward, program(FunctionKind::kForward, made.inputs, joined(outputs, table_.saved), sizes_));
    if (recomputes_) {
      RANNC_ASSIGN(made.begin, program(FunctionKind::kForward, made.inputs, joined(outputs, table_.recompute), sizes_));
      for (const ValueId value : table_[FunctionKind::kRebuild].arguments) {
        const bool kept = std::binary_search(table_.recompute.begin(), table_.recompute.end(), value);
        if (kept || !is_random(value)) made.rebuild_from.push_back(value);
      }
      RANNC_ASSIGN(made.rebuild, program(FunctionKind::kRebuild, made.rebuild_from, table_.rebuilt, sizes_));
    }
    RANNC_TRY(backward(made));
    made.has_end = !table_[FunctionKind::kStepEnd].tasks.empty() || !table_[FunctionKind::kStepEnd].results.empty();
    RANNC_ASSIGN(made.end, program(FunctionKind::kStepEnd, made.totals, {}, sizes_));
    return made;
  }

 private:
  bool is_random(ValueId value) const { return joint_.graph.kind(value) == ir::ValueKind::kRandomInput; }

  /// Backward programs take all saved values, then seeds. I also returns what W takes.
  Result<void> backward(StagePrograms& made) {
    Ids seeds, gradients;
    for (const auto& output : joint_.outputs) seeds.push_back(output.gradient);
    for (const auto& input : joint_.inputs) gradients.push_back(input.gradient);
    const Ids& for_weight = table_[FunctionKind::kWeight].arguments;
    const Ids arguments = joined(table_.saved, seeds);
    RANNC_ASSIGN(made.input, program(FunctionKind::kInput, arguments, joined(gradients, for_weight), sizes_));
    RANNC_ASSIGN(made.weight, program(FunctionKind::kWeight, for_weight, {}, sizes_));
    RANNC_ASSIGN(made.backward, program(FunctionKind::kBackward, arguments, gradients, sizes_));
    return {};
  }

  void find_sums(const Ids& totals) {
    for (size_t i = 0; i < joint_.gradients.size(); ++i) {
      sums_.emplace_back(joint_.gradients[i].gradient, places_.leaf_of_part[i]);
    }
    for (size_t i = 0; i < totals.size(); ++i) sums_.emplace_back(totals[i], static_cast<uint32_t>(first_total() + i));
  }
  /// Totals follow the leaves of the signature, each of which has at most one part.
  size_t first_total() const { return places_.leaf_count; }

  /// Values that P makes and another function reads.
  Ids read_elsewhere(FunctionKind kind) const {
    Ids found;
    std::set<ValueId> given(places_.outputs.begin(), places_.outputs.end());
    for (const ir::StageFunction& function : table_.functions) {
      const Ids leaving = function.leaving();
      given.insert(leaving.begin(), leaving.end());
    }
    for (const TaskId task : table_[kind].tasks) {
      for (const ValueId output : joint_.graph.outputs(task)) {
        const bool used = given.contains(output) || joint_.graph.any_use(output, [&](ir::Graph::Use use) {
          return table_.place[use.task.index()] != kind;
        });
        if (used) found.push_back(output);
      }
    }
    return found;
  }

  Result<FlatProgram> program(FunctionKind kind, Ids arguments, Ids results, SizeTable& sizes) {
    const ir::StageFunction& function = table_[kind];
    std::vector<std::pair<ValueId, uint32_t>> adds;
    const bool end = kind == FunctionKind::kStepEnd;
    const Ids& added = end ? function.results : function.added;
    for (const auto& [value, sum] : sums_) {
      if (std::find(added.begin(), added.end(), value) != added.end()) adds.emplace_back(value, sum);
    }
    return FlatProgram::build({.graph = joint_.graph,
                               .tasks = function.tasks,
                               .arguments = std::move(arguments),
                               .random_inputs = random_inputs_,
                               .results = std::move(results),
                               .adds = std::move(adds),
                               .kernels = kernels_,
                               .device = device_,
                               .loops = loops_},
                              sizes);
  }

  const ir::Joint& joint_;
  const bool recomputes_;
  const ir::FunctionTable& table_;
  const StagePlaces& places_;
  const std::map<TaskId, TaskKernel>& kernels_;
  const at::Device device_;
  const bool loops_;
  SizeTable& sizes_;
  Ids random_inputs_;                               // random inputs
  std::vector<std::pair<ValueId, uint32_t>> sums_;  // values and the sum that each is added to
};

}  // namespace

namespace {

template <class Programs, class Program>
std::vector<std::pair<std::string_view, Program*>> named(Programs& programs) {
  std::vector<std::pair<std::string_view, Program*>> all = {
      {"P_load", &programs.load}, {"P_step", &programs.step},        {"F_evaluate", &programs.evaluate},
      {"F", &programs.forward},   {"F_recomputed", &programs.begin}, {"R", &programs.rebuild},
      {"I", &programs.input},     {"W", &programs.weight},           {"B", &programs.backward},
      {"E", &programs.end}};
  std::erase_if(all, [](const auto& each) { return !each.second->exists(); });
  return all;
}

}  // namespace

std::vector<std::pair<std::string_view, const FlatProgram*>> named_programs(const StagePrograms& programs) {
  return named<const StagePrograms, const FlatProgram>(programs);
}

std::vector<std::pair<std::string_view, FlatProgram*>> named_programs(StagePrograms& programs) {
  return named<StagePrograms, FlatProgram>(programs);
}

Result<StagePrograms> build_programs(const StageParts& stage, SizeTable& sizes, SizeTable& load_sizes) {
  return ProgramBuilder(stage, sizes).build(load_sizes);
}

}  // namespace rannc::runtime
