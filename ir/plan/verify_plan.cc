// Verifier of plans. Rules, in addition to those of the graph (G) and the schedule (S):
//   P1   a constant task reads no input, no random input with samples, and only outputs of constant tasks; every other
//        task is an atom
//   P2   every non-constant task is in exactly one stage; the tasks of a stage exist and ascend
//   P3   a stage holds every constant task that its tasks read; some stage holds each constant output
//   P4   stages are in topological order: no value flows from a later to an earlier one
//   P5   routes are exactly those that the stages need, with their bytes
//   P6   shared parameters are exactly those that several stages read
//   P7   every stage has devices of the plan, without duplicates; device names are unique; all are of one type
//   P8   micro-batches sum to the mini-batch, differ by at most one sample and are not empty
//   P9   a block lies in one stage; blocks are numbered without gaps
//   P10  each device has a prediction within its memory
//   P11  times belong to existing stages and are not negative; times of the beginning and of the end of a step
//        cover all stages or none; the step is not below the lower bound
//   P12  the planner is named, digests are hexadecimal
//   P13  the schedule is lowered, has a row for each device and a name of one word
//   P14  a plan for inference has no optimizer; that of training has a known name or none at all, and the settings that
//        the plan gives it, in their ranges; its groups divide the parameters (`ParameterUpdates::of`)
//   P15  without a batch symbol there is one micro-batch, of the graph's own samples, and one device per stage
//   P16  a route whose value depends on the number of samples connects stages with equal numbers of replicas
//   P17  no task completes a sum over micro-batches: stages run once per micro-batch, on a part of its samples
//   P18  if a task normalizes over the samples of all replicas of its stage, each replica has a sample of every
//        micro-batch
//   P19  functions, if they are cut, are those of every stage, in order, and keep values for an R exactly if the stage
//        recomputes
//   P20  a stage that shards its optimizer state is trained and has several replicas
//   P21  exactly one stage returns each loss numerator
//   P22  the buckets of a stage hold each parameter of its ARs (`summed_parameters`) once and nothing else, and none is
//        empty; sums are timed for each of them or for none
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ir/op/op.h"
#include "ir/plan/atoms.h"
#include "ir/plan/buckets.h"
#include "ir/plan/fixed_samples.h"
#include "ir/plan/functions.h"
#include "ir/plan/parameter_updates.h"
#include "ir/plan/stage_graph.h"
#include "ir/schedule/verify_schedule.h"
#include "ir/state/statistics.h"
#include "ir/verify.h"

namespace rannc::ir {

namespace {

class PlanVerifier {
 public:
  explicit PlanVerifier(const Plan& plan) : plan_(plan), graph_(plan.graph) {}

  std::vector<Diagnostic> verify() {
    found_ = ir::verify(graph_);
    if (!found_.empty()) return std::move(found_);
    atoms();
    stages();
    devices();
    sharded();
    micro_batches();
    fixed_batch();
    joint_stages();
    if (!found_.empty()) return std::move(found_);  // what follows indexes by task, stage and device
    constants();
    order();
    crossings_ = crossings(plan_);
    routes();
    shared();
    buckets();
    blocks();
    predictions();
    times();
    finish_times();
    provenance();
    optimizer();
    if (found_.empty()) losses();
    if (found_.empty()) functions();
    if (found_.empty()) schedule();
    return std::move(found_);
  }

 private:
  template <class... Args>
  void add(const char* rule, Location where, fmt::format_string<Args...> format, Args&&... args) {
    found_.push_back(error(std::move(where), fmt::format(format, std::forward<Args>(args)...), rule));
  }
  std::string_view name(ValueId id) const { return graph_.value(id).name; }
  bool constant(TaskId task) const { return plan_.atoms.constant[task.index()]; }
  bool stage_exists(StageId id) const { return id.valid() && id.index() < plan_.stages.size(); }

  void atoms() {
    const Atoms& atoms = plan_.atoms;
    const size_t count = graph_.task_count();
    if (atoms.constant.size() != count || atoms.atom_of.size() != count) {
      return add("P1", {}, "{} marks and {} atoms for {} tasks", atoms.constant.size(), atoms.atom_of.size(), count);
    }
    uint32_t next = 0;
    for (const TaskId task : graph_.tasks()) {
      if (graph_.op(task).makes_whole())
        add("P17", graph_.location(task), "task #{} {} completes a sum over micro-batches, which no stage can do",
            task.index(), graph_.op(task).name);
      if (constant(task)) {
        constant_operands(task);
        if (atoms.atom_of[task.index()].valid()) {
          add("P1", graph_.location(task), "constant task #{} is in an atom of its own", task.index());
        }
        continue;
      }
      const bool listed =
          next < atoms.tasks.size() && atoms.tasks[next] == task && atoms.atom_of[task.index()] == AtomId(next);
      ++next;
      if (!listed) return add("P1", graph_.location(task), "task #{} is not atom {}", task.index(), next - 1);
    }
    if (next != atoms.tasks.size())
      add("P1", {}, "{} atoms for {} tasks that are not constant", atoms.tasks.size(), next);
  }

  void constant_operands(TaskId task) {
    for (const ValueId input : graph_.inputs(task)) {
      if (!input.valid()) continue;
      const Graph::Value& value = graph_.value(input);
      const bool fixed = value.producer.valid() ? constant(value.producer) : is_fixed(graph_, input);
      if (!fixed)
        add("P1", graph_.location(task), "constant task #{} reads %{}, which is not constant", task.index(),
            value.name);
    }
  }

  void stages() {
    if (plan_.stages.empty()) add("P2", {}, "the plan has no stages");
    std::vector<StageId> holder(graph_.task_count());
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const auto& tasks = plan_.stages[s].tasks;
      for (size_t i = 0; i < tasks.size(); ++i) {
        if (!tasks[i].valid() || tasks[i].index() >= graph_.task_count()) {
          return add("P2", {}, "stage @s{} holds task #{} of {}", s, tasks[i].index(), graph_.task_count());
        }
        if (i > 0 && !(tasks[i - 1] < tasks[i])) {
          return add("P2", {}, "stage @s{} holds task #{} after task #{}", s, tasks[i].index(), tasks[i - 1].index());
        }
        if (tasks[i].index() >= plan_.atoms.constant.size() || constant(tasks[i])) continue;
        StageId& stage = holder[tasks[i].index()];
        if (stage.valid()) {
          add("P2", graph_.location(tasks[i]), "task #{} is in stage @s{} and in stage @s{}", tasks[i].index(),
              stage.index(), s);
        }
        stage = StageId::from(s);
      }
    }
    for (const TaskId task : graph_.tasks()) {
      if (task.index() < plan_.atoms.constant.size() && !constant(task) && !holder[task.index()].valid()) {
        add("P2", graph_.location(task), "task #{} is in no stage", task.index());
      }
    }
    std::vector<bool> own(plan_.stages.size());
    for (const StageId stage : holder) {
      if (stage.valid()) own[stage.index()] = true;
    }
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      if (!own[s]) {
        add("P2", {}, "stage @s{} holds no task of its own", s);
      }
    }
  }

  void constants() {
    std::vector<StageId> held(graph_.task_count());  // the last stage so far that holds the task
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      for (const TaskId task : plan_.stages[s].tasks) held[task.index()] = StageId::from(s);
      for (const TaskId task : plan_.stages[s].tasks) {
        for (const ValueId input : graph_.inputs(task)) {
          const TaskId producer = input.valid() ? graph_.producer(input) : TaskId();
          if (!producer.valid() || !constant(producer) || held[producer.index()] == StageId::from(s)) continue;
          add("P3", graph_.location(task), "stage @s{} reads %{} in task #{}, but holds no clone of constant task #{}",
              s, name(input), task.index(), producer.index());
        }
      }
    }
    for (const ValueId output : graph_.outputs()) {
      const TaskId producer = graph_.value(output).producer;
      if (producer.valid() && !held[producer.index()].valid()) {
        add("P3", graph_.location(producer), "output %{} is made by constant task #{}, which no stage holds",
            name(output), producer.index());
      }
    }
  }

  void losses() {
    std::vector<uint32_t> stages(graph_.value_count());
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      for (const StageOutput& output : stage_outputs(plan_, StageId::from(s))) ++stages[output.value.index()];
    }
    for (const LossTerm& term : graph_.losses()) {
      const uint32_t count = stages[term.numerator.index()];
      if (count == 1) continue;
      const TaskId producer = graph_.producer(term.numerator);
      add("P21", graph_.location(producer), "{} stages return loss numerator %{} of task #{}; expected one", count,
          name(term.numerator), producer.index());
    }
  }

  void order() {
    const std::vector<StageId> stage_of = stage_of_tasks(plan_);
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      for (const TaskId task : plan_.stages[s].tasks) {
        for (const ValueId input : graph_.inputs(task)) {
          const TaskId producer = input.valid() ? graph_.producer(input) : TaskId();
          if (!producer.valid() || constant(producer) || stage_of[producer.index()].index() <= s) continue;
          Diagnostic fault = error(graph_.location(task),
                                   fmt::format("stage @s{} reads %{} in task #{} from the later stage @s{}", s,
                                               name(input), task.index(), stage_of[producer.index()].index()),
                                   "P4");
          found_.push_back(std::move(fault).note(fmt::format("%{} is made by task #{}", name(input), producer.index()),
                                                 graph_.location(producer)));
        }
      }
    }
  }

  std::string describe(const Route& route) const {
    const bool known = route.value.valid() && route.value.index() < graph_.value_count();
    return fmt::format("%{} from @s{} to @s{} of {} bytes{}", known ? std::string(name(route.value)) : "?",
                       route.from.index(), route.to.index(), route.bytes.str(),
                       route.gradient ? " with its gradient" : "");
  }

  void routes() {
    const auto& needed = crossings_.routes;
    for (size_t r = 0; r < std::max(needed.size(), plan_.routes.size()); ++r) {
      if (r >= plan_.routes.size()) return add("P5", {}, "route {} is missing: {}", r, describe(needed[r]));
      if (r >= needed.size()) return add("P5", {}, "route {} is not needed: {}", r, describe(plan_.routes[r]));
      if (!(plan_.routes[r] == needed[r])) {
        return add("P5", {}, "route {} is {}; needed is {}", r, describe(plan_.routes[r]), describe(needed[r]));
      }
      const auto replicas = [&](StageId stage) { return plan_.stages[stage.index()].devices.size(); };
      if (graph_.type(needed[r].value).batch.mix == Mix::kCounted &&
          replicas(needed[r].from) != replicas(needed[r].to)) {
        add("P16", {}, "route {} depends on the number of samples, but goes from {} replicas to {}: {}", r,
            replicas(needed[r].from), replicas(needed[r].to), describe(needed[r]));
      }
    }
  }

  void shared() {
    std::vector<SharedParameter> listed = plan_.shared;
    for (SharedParameter& entry : listed) {
      if (std::exchange(entry.sum_ns, 0) < 0) add("P11", {}, "a sum of a shared parameter takes a negative time");
    }
    for (const SharedParameter& needed : crossings_.shared) {
      if (std::find(listed.begin(), listed.end(), needed) == listed.end()) {
        add("P6", {}, "parameter %{} is read by {} stages, @s{} the first, but is not listed as shared by them",
            name(needed.parameter), needed.others.size() + 1, needed.owner.index());
      }
    }
    if (found_.empty() && listed != crossings_.shared) {
      add("P6", {}, "{} shared parameters are listed; {} are read by several stages", plan_.shared.size(),
          crossings_.shared.size());
    }
  }

  void devices() {
    std::set<std::string_view> names;
    for (size_t d = 0; d < plan_.devices.size(); ++d) {
      const std::string& name = plan_.devices[d].name;
      if (!names.insert(name).second) add("P7", {}, "device d{} has the name {} of an earlier device", d, name);
      if (plan_.devices[d].type != device_type(plan_)) {
        add("P7", {}, "device d{} is of type {}, but d0 of type {}; kernels are chosen for one type", d,
            str(plan_.devices[d].type), str(device_type(plan_)));
      }
    }
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const auto& devices = plan_.stages[s].devices;
      if (devices.empty()) add("P7", {}, "stage @s{} has no device", s);
      std::set<DeviceId> seen;
      for (const DeviceId device : devices) {
        if (!device.valid() || device.index() >= plan_.devices.size()) {
          add("P7", {}, "stage @s{} is on device d{}; the plan has {}", s, device.index(), plan_.devices.size());
        } else if (!seen.insert(device).second) {
          add("P7", {}, "stage @s{} is on device d{} twice", s, device.index());
        }
      }
    }
  }

  void micro_batches() {
    const auto& sizes = plan_.micro_batches;
    uint64_t sum = 0;
    for (const uint32_t samples : sizes) sum += samples;
    if (sizes.empty() || sum != plan_.mini_batch) {
      return add("P8", {}, "{} micro-batches hold {} samples, the mini-batch {}", sizes.size(), sum, plan_.mini_batch);
    }
    const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
    if (*least == 0) add("P8", {}, "a micro-batch is empty");
    if (*most - *least > 1)
      add("P8", {}, "micro-batches of {} and of {} samples differ by more than one", *most, *least);
  }

  void fixed_batch() {
    const auto samples = fixed_samples(graph_, plan_.sizes);
    if (!samples) return;
    if (plan_.micro_batches.size() > 1) {
      add("P15", {}, "the graph has no batch symbol: a mini-batch of {} samples cannot be split into {} micro-batches",
          *samples, plan_.micro_batches.size());
    } else if (plan_.mini_batch != *samples) {
      add("P15", {}, "the graph has no batch symbol: it has {} samples, the mini-batch {}", *samples, plan_.mini_batch);
    }
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      if (plan_.stages[s].devices.size() < 2) continue;
      add("P15", {}, "the graph has no batch symbol: its samples cannot be split over the {} replicas of stage @s{}",
          plan_.stages[s].devices.size(), s);
    }
  }

  /// Replicas of such a stage wait for each other in each of its computations. They would wait for a replica without
  /// samples forever, so each must have some.
  void joint_stages() {
    joint_.assign(plan_.stages.size(), false);
    if (!plan_.training || !found_.empty()) return;
    const uint32_t least = *std::min_element(plan_.micro_batches.begin(), plan_.micro_batches.end());
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const auto& tasks = plan_.stages[s].tasks;
      const auto first = std::find_if(tasks.begin(), tasks.end(),
                                      [&](TaskId task) { return synchronised(graph_, task).value_or(false); });
      const size_t replicas = plan_.stages[s].devices.size();
      if (first == tasks.end() || replicas < 2) continue;
      joint_[s] = true;
      if (replicas <= least) continue;
      add("P18", graph_.location(*first),
          "task #{} normalises by the samples of all {} replicas of stage @s{}, each of which needs one; the smallest "
          "micro-batch has {}",
          first->index(), replicas, s, least);
    }
  }

  void blocks() {
    if (plan_.block_of.empty()) return;
    const size_t atoms = plan_.atoms.tasks.size();
    if (plan_.block_of.size() != atoms)
      return add("P9", {}, "{} atoms have a block, of {}", plan_.block_of.size(), atoms);
    const std::vector<StageId> stage_of = stage_of_tasks(plan_);
    std::vector<AtomId> first(atoms);
    for (size_t a = 0; a < atoms; ++a) {
      const BlockId block = plan_.block_of[a];
      if (!block.valid() || block.index() >= atoms)
        return add("P9", {}, "task #{} is in no block", plan_.atoms.tasks[a].index());
      AtomId& representative = first[block.index()];
      if (!representative.valid()) representative = AtomId::from(a);
      const TaskId one = plan_.atoms.tasks[representative.index()], other = plan_.atoms.tasks[a];
      if (stage_of[one.index()] != stage_of[other.index()]) {
        return add("P9", graph_.location(other), "block b{} is cut: task #{} is in stage @s{}, task #{} in stage @s{}",
                   block.index(), one.index(), stage_of[one.index()].index(), other.index(),
                   stage_of[other.index()].index());
      }
    }
    const auto gap = std::find(first.begin(), first.end(), AtomId());
    const auto last = std::find_if(gap, first.end(), [](AtomId atom) { return atom.valid(); });
    if (last != first.end()) add("P9", {}, "block b{} is empty", gap - first.begin());
  }

  void predictions() {
    if (plan_.predictions.size() != plan_.devices.size()) {
      return add("P10", {}, "{} predictions for {} devices", plan_.predictions.size(), plan_.devices.size());
    }
    for (size_t d = 0; d < plan_.devices.size(); ++d) {
      const uint64_t limit = plan_.devices[d].memory_bytes, peak = plan_.predictions[d].peak_bytes;
      if (limit != 0 && peak > limit) {
        add("P10", {}, "device d{} ({}) is predicted to need {} bytes at its peak; it has {}", d, plan_.devices[d].name,
            peak, limit);
      }
      if (plan_.predictions[d].busy_ns < 0) add("P10", {}, "device d{} is busy for a negative time", d);
    }
  }

  void times() {
    for (const StageTime& time : plan_.stage_times) {
      if (!stage_exists(time.stage)) {
        add("P11", {}, "a time of stage @s{}; the plan has {}", time.stage.index(), plan_.stages.size());
      } else if (time.samples == 0 || time.forward_ns < 0 || time.backward_ns < 0) {
        add("P11", {}, "the time of stage @s{} for {} samples is {} and {} ns", time.stage.index(), time.samples,
            time.forward_ns, time.backward_ns);
      } else if (time.weight_ns < 0 || time.weight_ns > time.backward_ns) {
        add("P11", {}, "the weight gradient of stage @s{} takes {} ns of a backward pass of {} ns", time.stage.index(),
            time.weight_ns, time.backward_ns);
      }
    }
    const int64_t searched = plan_.searched_ns == 0 ? plan_.step_ns : plan_.searched_ns;
    if (plan_.lower_bound_ns < 0 || searched < plan_.lower_bound_ns) {
      add("P11", {}, "a step takes {} ns, less than the lower bound of {} ns", searched, plan_.lower_bound_ns);
    }
  }

  void finish_times() {
    const auto& times = plan_.finish_times;
    if (!times.empty() && times.size() != plan_.stages.size()) {
      return add("P11", {}, "{} times of finishing a step for {} stages", times.size(), plan_.stages.size());
    }
    if (!plan_.begin_ns.empty() && plan_.begin_ns.size() != plan_.stages.size()) {
      return add("P11", {}, "{} times of beginning a step for {} stages", plan_.begin_ns.size(), plan_.stages.size());
    }
    for (size_t s = 0; s < plan_.begin_ns.size(); ++s) {
      if (plan_.begin_ns[s] < 0) add("P11", {}, "beginning a step takes stage @s{} {} ns", s, plan_.begin_ns[s]);
    }
    for (size_t s = 0; s < times.size(); ++s) {
      if (times[s].stage != StageId::from(s)) {
        add("P11", {}, "finishing time {} is of stage @s{}", s, times[s].stage.index());
      } else if (std::min({times[s].all_reduce_ns, times[s].optimizer_ns, times[s].gradients_ns, times[s].gather_ns}) <
                 0) {
        add("P11", {}, "finishing a step takes stage @s{} {}, {}, {} and {} ns", s, times[s].gradients_ns,
            times[s].all_reduce_ns, times[s].optimizer_ns, times[s].gather_ns);
      }
      for (const SumTime& sum : times[s].sums) {
        if (std::min(sum.sum_ns, sum.ahead_ns) < 0)
          add("P11", {}, "a sum of stage @s{} takes {} ns, {} of them ahead", s, sum.sum_ns, sum.ahead_ns);
      }
    }
  }

  void provenance() {
    if (plan_.planner.empty()) add("P12", {}, "the plan does not name its planner");
    const auto hexadecimal = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    for (const auto& [what, digest] :
         {std::pair("model", &plan_.model_digest), std::pair("cluster", &plan_.cluster_digest),
          std::pair("profile", &plan_.profile_digest)}) {
      if (!std::all_of(digest->begin(), digest->end(), hexadecimal)) {
        add("P12", {}, "the digest of the {} is \"{}\", not hexadecimal digits", what, *digest);
      }
    }
  }

  void buckets() {
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const std::vector<ValueId> summed = summed_parameters(plan_, StageId::from(s));
      std::map<ValueId, size_t> times;
      for (const std::vector<ValueId>& bucket : plan_.stages[s].buckets) {
        if (bucket.empty()) add("P22", {}, "stage @s{} has an empty bucket", s);
        for (const ValueId parameter : bucket) ++times[parameter];
      }
      for (const ValueId parameter : summed) {
        const size_t found = times.contains(parameter) ? times.extract(parameter).mapped() : 0;
        if (found != 1) add("P22", {}, "%{} is in {} buckets of stage @s{}; expected 1", name(parameter), found, s);
      }
      for (const auto& [other, found] : times)
        add("P22", {}, "%{} is in a bucket of stage @s{}, whose replicas do not sum its gradient", name(other), s);
      if (s >= plan_.finish_times.size()) continue;
      const size_t timed = plan_.finish_times[s].sums.size(), count = plan_.stages[s].buckets.size();
      if (timed != 0 && timed != count) add("P22", {}, "{} sums of stage @s{} are timed, of {}", timed, s, count);
    }
  }

  void sharded() {
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      if (!plan_.stages[s].sharded) continue;
      if (!plan_.training) add("P20", {}, "stage @s{} shards optimizer state, but the plan is for inference", s);
      if (const size_t devices = plan_.stages[s].devices.size(); devices < 2)
        add("P20", {}, "stage @s{} shards optimizer state over {} device(s); expected 2 or more", s, devices);
    }
  }

  void optimizer() {
    const PlanOptimizer& optimizer = plan_.optimizer;
    const double momentum = optimizer.momentum;
    if (optimizer == PlanOptimizer()) return;
    if (!plan_.training)
      return add("P14", {}, "the plan is for inference and has the optimizer \"{}\"", optimizer.name);
    const Result<OptimizerKind> kind = parse_optimizer(optimizer.name);
    if (!kind.ok()) return add("P14", {}, "{}", kind.diagnostic().message);
    if (!(momentum >= 0 && momentum < 1) || (momentum != 0 && !has_setting(*kind, "momentum"))) {
      add("P14", {}, "optimizer {} with a momentum of {}; {} have one, in [0, 1)", optimizer.name, momentum,
          optimizers_with("momentum"));
    } else if (optimizer.amsgrad && !has_setting(*kind, "amsgrad")) {
      add("P14", {}, "optimizer {} with amsgrad; {} have it", optimizer.name, optimizers_with("amsgrad"));
    } else if (const double average = optimizer.grouping.average; !(average >= 0 && average < 1)) {
      add("P14", {}, "optimizer {} with an average of weight {}; expected one in [0, 1)", optimizer.name, average);
    } else if (const auto updates = ParameterUpdates::of(graph_, optimizer); !updates.ok()) {
      add("P14", {}, "{}", updates.diagnostic().message);
    }
  }

  void functions() {
    if (plan_.functions.empty()) return;
    if (plan_.functions.size() != plan_.stages.size())
      return add("P19", {}, "{} stages have functions, of {}", plan_.functions.size(), plan_.stages.size());
    for (size_t s = 0; s < plan_.stages.size() && found_.empty(); ++s) {
      const StageFunctions& functions = *plan_.functions[s];
      const StageGraph stage = stage_graph(plan_, StageId::from(s));
      found_ = ir::verify(functions.joint, stage.graph);
      if (!found_.empty()) return;
      found_ = ir::verify(functions, function_table(functions));
      if (!found_.empty()) return;
      std::vector<ValueId> returned;
      for (const Joint::BorderGradient& output : functions.joint.outputs) returned.push_back(output.value);
      if (functions.joint.graph.inputs().size() != stage.graph.inputs().size() + returned.size())
        add("P19", {}, "the functions of stage @s{} have other inputs than the stage", s);
      if (functions.kept.has_value() != plan_.stages[s].recompute) {
        add("P19", {}, "stage @s{} {}, but its functions {}", s,
            plan_.stages[s].recompute ? "recomputes" : "does not recompute",
            functions.kept ? "keep values for an R" : "have no R");
      }
    }
  }

  void schedule() {
    const Schedule& schedule = plan_.schedule;
    if (schedule.rows.size() != plan_.devices.size()) {
      return add("P13", {}, "the schedule has {} rows, the plan {} devices", schedule.rows.size(),
                 plan_.devices.size());
    }
    if (schedule.name.empty() || schedule.name.find_first_of(" \t\r\n/#") != std::string::npos) {
      return add("P13", {}, "the schedule's name \"{}\" is not one word", schedule.name);
    }
    if (!schedule.lowered) return add("P13", {}, "the schedule {} is not lowered", schedule.name);
    found_ = verify_schedule(pipeline_shape(plan_), schedule, joint_);
  }

  const Plan& plan_;
  const Graph& graph_;
  Crossings crossings_;      // what the stages need
  std::vector<bool> joint_;  // stages whose replicas compute together
  std::vector<Diagnostic> found_;
};

}  // namespace

std::vector<Diagnostic> verify(const Plan& plan) { return PlanVerifier(plan).verify(); }

}  // namespace rannc::ir
