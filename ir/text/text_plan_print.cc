// Printer of plans: graph, then devices, atoms, blocks, stages, routes, schedule, predictions.
#include <fmt/format.h>

#include "ir/internal/stage_time_fields.h"
#include "ir/internal/text_joint.h"
#include "ir/internal/text_writer.h"
#include "ir/plan/functions.h"
#include "ir/text/text.h"

namespace rannc::ir {

namespace {

template <class IdType>
std::vector<uint32_t> numbers(const std::vector<IdType>& ids) {
  std::vector<uint32_t> found;
  found.reserve(ids.size());
  for (const IdType id : ids) found.push_back(id.index());
  return found;
}

class PlanPrinter {
 public:
  PlanPrinter(std::string& to, const Plan& plan) : to_(to), plan_(plan) {}

  void print() {
    append_graph(to_, plan_.graph);
    header();
    for (size_t d = 0; d < plan_.devices.size(); ++d) device(d);
    constant_tasks();
    blocks();
    for (size_t s = 0; s < plan_.stages.size(); ++s) stage(s);
    for (size_t r = 0; r < plan_.routes.size(); ++r) route(r);
    for (const SharedParameter& shared : plan_.shared) share(shared);
    for (const StageTime& time : plan_.stage_times) stage_time(time);
    for (size_t s = 0; s < plan_.begin_ns.size(); ++s) add("begin @s{} ns {}\n", s, plan_.begin_ns[s]);
    for (const FinishTime& time : plan_.finish_times) finish_time(time);
    for (size_t d = 0; d < plan_.predictions.size(); ++d) prediction(d);
    for (size_t s = 0; s < plan_.functions.size(); ++s) functions(s);
    to_ += print_schedule(plan_.schedule);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(to_), format, std::forward<Args>(args)...);
  }

  void header() {
    add("plan {} seed {}\n", quote(plan_.planner), plan_.seed);
    add("digests model {} cluster {} profile {}\n", quote(plan_.model_digest), quote(plan_.cluster_digest),
        quote(plan_.profile_digest));
    add("{} mini_batch {} micro_batches [{}]{}\n", plan_.training ? "training" : "inference", plan_.mini_batch,
        fmt::join(plan_.micro_batches, ","), plan_.loops ? " loops" : "");
    optimizer();
    for (const auto& [symbol, size] : plan_.sizes) assumed(symbol, size);
    const std::string searched = plan_.searched_ns > 0 ? fmt::format(" searched_ns {}", plan_.searched_ns) : "";
    add("step_ns {}{} lower_bound_ns {}\n", plan_.step_ns, searched, plan_.lower_bound_ns);
  }

  void optimizer() {
    const PlanOptimizer& optimizer = plan_.optimizer;
    if (optimizer.name.empty()) return;
    to_ += "optimizer ";
    append_word(to_, optimizer.name);
    const Grouping& grouping = optimizer.grouping;
    if (optimizer.amsgrad) to_ += " amsgrad";
    if (grouping.no_decay) to_ += " no_decay";
    if (grouping.no_decay_embeddings) to_ += " no_decay_embeddings";
    if (grouping.average != 0) add(" average {}", hexadecimal(grouping.average));
    if (optimizer.momentum != 0) add(" momentum {}  // {}", hexadecimal(optimizer.momentum), optimizer.momentum);
    to_ += '\n';
    for (const ParameterGroup& group : grouping.groups) add("group {}\n", quote(str(group)));
  }

  void assumed(const std::string& symbol, int64_t size) {
    to_ += "size ";
    append_word(to_, symbol);
    add(" {}\n", size);
  }

  void device(size_t d) {
    const PlanDevice& device = plan_.devices[d];
    add("device d{} {} kind {} memory_bytes {}", d, quote(device.name), quote(device.kind), device.memory_bytes);
    if (device.type != DeviceType::kCpu) add(" type {}", str(device.type));
    if (device.instructions != kDefaultInstructions) add(" instructions {}", str(device.instructions));
    add("\n");
  }

  void constant_tasks() {
    std::vector<uint32_t> tasks;
    for (size_t t = 0; t < plan_.atoms.constant.size(); ++t) {
      if (plan_.atoms.constant[t]) tasks.push_back(static_cast<uint32_t>(t));
    }
    to_ += "constant_tasks ";
    append_indices(to_, "#", tasks);
    to_ += '\n';
  }

  void blocks() {
    std::vector<std::vector<uint32_t>> tasks;
    for (size_t a = 0; a < plan_.block_of.size() && a < plan_.atoms.tasks.size(); ++a) {
      const BlockId block = plan_.block_of[a];
      if (!block.valid() || block.index() >= plan_.block_of.size()) continue;
      if (tasks.size() <= block.index()) tasks.resize(block.index() + 1);
      tasks[block.index()].push_back(plan_.atoms.tasks[a].index());
    }
    for (size_t b = 0; b < tasks.size(); ++b) {
      add("block b{} tasks ", b);
      append_indices(to_, "#", tasks[b]);
      to_ += '\n';
    }
  }

  void stage(size_t s) {
    const Stage& stage = plan_.stages[s];
    add("stage @s{} tasks ", s);
    append_indices(to_, "#", numbers(stage.tasks));
    to_ += " devices ";
    append_indices(to_, "d", numbers(stage.devices));
    if (stage.recompute) to_ += " recompute";
    if (stage.sharded) to_ += " sharded";
    to_ += '\n';
    for (const std::vector<ValueId>& bucket : stage.buckets) {
      add("bucket @s{}", s);
      for (const ValueId parameter : bucket) {
        to_ += ' ';
        value(parameter);
      }
      to_ += '\n';
    }
  }

  void value(ValueId id) { append_name(to_, '%', plan_.graph.value(id).name); }

  void route(size_t r) {
    const Route& route = plan_.routes[r];
    add("route {} ", r);
    value(route.value);
    add(" @s{} -> @s{} bytes [{}]{}\n", route.from.index(), route.to.index(), route.bytes.str(),
        route.gradient ? " gradient" : "");
  }

  void share(const SharedParameter& shared) {
    to_ += "share ";
    value(shared.parameter);
    add(" owner @s{} also ", shared.owner.index());
    append_indices(to_, "@s", numbers(shared.others));
    if (shared.sum_ns != 0) add(" sum_ns {}", shared.sum_ns);
    to_ += '\n';
  }

  void stage_time(const StageTime& time) {
    add("time @s{} samples {} forward_ns {} backward_ns {} stashed_bytes {}", time.stage.index(), time.samples,
        time.forward_ns, time.backward_ns, time.stashed_bytes);
    for_each_optional_field(time, [&](const char* name, auto amount) {
      if (amount != 0) add(" {} {}", name, amount);
    });
    to_ += '\n';
  }

  void finish_time(const FinishTime& time) {
    add("finish @s{} all_reduce_ns {} optimizer_ns {}", time.stage.index(), time.all_reduce_ns, time.optimizer_ns);
    if (time.gradients_ns != 0) add(" gradients_ns {}", time.gradients_ns);
    if (time.gather_ns != 0) add(" gather_ns {}", time.gather_ns);
    for (const SumTime& sum : time.sums) add(" sum_ns {} ahead_ns {}", sum.sum_ns, sum.ahead_ns);
    to_ += '\n';
  }

  void prediction(size_t d) {
    add("predict d{} busy_ns {} peak_bytes {}\n", d, plan_.predictions[d].busy_ns, plan_.predictions[d].peak_bytes);
  }

  /// Prints a stage's joint graph, indented, then what each of its functions does.
  void functions(size_t s) {
    const StageFunctions& functions = *plan_.functions[s];
    add("functions @s{}\n", s);
    std::string text;
    append_joint(text, functions.joint);
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at) + 1;
      to_.append("  ").append(text, at, end - at);
      at = end;
    }
    add("end @s{}", s);
    if (functions.kept) {
      to_ += " kept [";
      for (size_t i = 0; i < functions.kept->size(); ++i) {
        to_ += i == 0 ? "" : ", ";
        append_name(to_, '%', functions.joint.graph.value((*functions.kept)[i]).name);
      }
      to_ += ']';
    }
    to_ += '\n';
    to_ += print_functions(functions, s);
  }

  std::string& to_;
  const Plan& plan_;
};

}  // namespace

std::string print(const Plan& plan) {
  std::string text = "rannc.plan 1\n";
  PlanPrinter(text, plan).print();
  return text;
}

}  // namespace rannc::ir
