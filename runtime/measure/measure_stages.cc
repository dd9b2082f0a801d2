#include "runtime/measure/measure_stages.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "runtime/engine/engine.h"
#include "runtime/execute/executor.h"
#include "runtime/internal/device_thread.h"
#include "runtime/internal/torch_value.h"
#include "runtime/measure/internal/own_random.h"
#include "runtime/train/optimizer.h"
#include "runtime/transport/transports.h"

namespace rannc::runtime {

namespace {

constexpr int kLeastSteps = 3;
constexpr int kMostSteps = 15;
constexpr double kEnoughNs = 1.5e9;            // total of counted steps, if there are at least kLeastSteps
constexpr double kTooMuchNs = 3e10;            // no further step starts after this
constexpr double kLossSeed = 1e-3;             // typical of a mean over a mini-batch
constexpr std::chrono::minutes kPatience{30};  // a step of a large model takes minutes

/// Synthetic samples of every input, generated once per number of samples.
class SyntheticFeed final : public Feed {
 public:
  explicit SyntheticFeed(const ir::Plan& plan, ir::Bindings symbols)
      : batch_(plan.graph.batch_symbol()), symbols_(std::move(symbols)) {}

  Result<Value> input(const Port& port, ir::SampleRange samples) override {
    const std::lock_guard lock(mutex_);
    Value& known = made_[{port.name, samples.size()}];
    if (known != nullptr) return known;
    if (!batch_.empty()) symbols_[batch_] = samples.size();
    std::vector<int64_t> sizes;
    for (const ir::Dim& dim : port.type.shape.value_or(ir::Shape{})) {
      const auto size = dim.evaluate(symbols_);
      if (!size) return error(fmt::format("the size {} of '{}' is not known", dim.str(), port.name));
      sizes.push_back(*size);
    }
    const at::ScalarType type = scalar_type(port.type.dtype);
    known = to_value(ir::is_float(port.type.dtype) ? random_.normal(sizes, type) : at::zeros(sizes, type));
    return known;
  }

 private:
  std::mutex mutex_;
  std::string batch_;
  ir::Bindings symbols_;
  std::map<std::pair<std::string, int64_t>, Value> made_;
  OwnRandom random_{at::kCPU};
};

/// Records the actions of one step.
class StepRecorder final : public Observer {
 public:
  void finished(const ActionRecord& record) override {
    const std::lock_guard lock(mutex_);
    records_.push_back(record);
  }
  std::vector<ActionRecord> take() { return std::exchange(records_, {}); }

 private:
  std::mutex mutex_;
  std::vector<ActionRecord> records_;
};

struct Worker {
  std::shared_ptr<Transport> transport;
  std::vector<std::unique_ptr<Program>> programs;           // by stage
  std::vector<std::unique_ptr<StageOptimizer>> optimizers;  // by stage
  std::unique_ptr<Executor> executor;
  DeviceThread thread;
  Result<void> result;
};

/// Synthetic samples must not change the weights.
StageUpdates without_rate(const ir::ParameterUpdates& updates, const Signature& stage) {
  StageUpdates found = stage_updates(updates, stage);
  for (ir::UpdateRule& rule : found.rules) rule.learning_rate = 0;
  return found;
}

/// Runs all devices of a plan, one thread each.
class Bench {
 public:
  Bench(const Bundle& bundle, const ir::Bindings& symbols)
      : plan_(bundle.plan),
        updates_(ir::ParameterUpdates::of(plan_.graph, plan_.optimizer).value()),  // P14 holds
        pipeline_(make_pipeline(bundle.plan, updates_)),
        feed_(bundle.plan, symbols) {
    input_.training = plan_.training;
    input_.overlaps_sums = false;  // else sums and computations would slow each other
    input_.symbols = symbols;
    input_.symbols.erase(plan_.graph.batch_symbol());
    input_.feed = &feed_;
    for (const ir::LossTerm& term : plan_.graph.losses()) {
      const auto type = scalar_type(plan_.graph.type(term.numerator).dtype);
      input_.loss_seeds.push_back(to_value(at::scalar_tensor(kLossSeed, at::TensorOptions().dtype(type))));
    }
  }

  Result<void> load(const Bundle& bundle) {
    RANNC_ASSIGN(const Engine* const engine, engine_for(bundle, cpu()));
    const std::vector<Device*> devices(plan_.devices.size(), &cpu());
    for (auto& transport : default_transport(false).open(devices, kPatience)) {
      auto worker = std::make_unique<Worker>();
      worker->transport = std::move(transport);
      worker->programs.resize(plan_.stages.size());
      worker->optimizers.resize(plan_.stages.size());
      std::vector<Program*> programs(plan_.stages.size());
      for (size_t s = 0; s < plan_.stages.size(); ++s) {
        const auto& homes = plan_.stages[s].devices;
        if (std::find(homes.begin(), homes.end(), worker->transport->device()) == homes.end()) continue;
        RANNC_ASSIGN(worker->programs[s], engine->load(bundle, StageId::from(s), Origins::kForgotten, cpu()));
        programs[s] = worker->programs[s].get();
        if (plan_.training) worker->optimizers[s] = make_optimizer(StageId::from(s), *worker);
      }
      worker->executor = std::make_unique<Executor>(pipeline_, worker->transport->device(), std::move(programs),
                                                    *worker->transport, &recorder_);
      workers_.push_back(std::move(worker));
    }
    return {};
  }

  Result<std::vector<ActionRecord>> step(uint64_t number) {
    for (const auto& worker : workers_) worker->thread.post([&, number] { worker->result = run(*worker, number); });
    for (const auto& worker : workers_) worker->thread.wait();
    for (const auto& worker : workers_) {
      if (!worker->result.ok()) return worker->transport->failure().value_or(worker->result.diagnostic());
    }
    return recorder_.take();
  }

 private:
  std::unique_ptr<StageOptimizer> make_optimizer(StageId stage, const Worker& worker) const {
    Program& program = *worker.programs[stage.index()];
    OptimizerOptions options;
    options.grouping = plan_.optimizer.grouping;
    return std::make_unique<StageOptimizer>(options, without_rate(updates_, program.signature()), program,
                                            std::vector<bool>(),
                                            share_of(pipeline_, stage, worker.transport->device()));
  }

  Result<void> run(Worker& worker, uint64_t number) const {
    StepInput input = input_;
    input.step = number;
    input.update = [&](StageId stage, Program&) { return worker.optimizers[stage.index()]->update(number); };
    try {
      RANNC_ASSIGN(const StepOutcome ignored, worker.executor->run(input));
    } catch (const std::exception& failure) {
      worker.transport->abort(error(failure.what()));
      return error(failure.what());
    }
    return {};
  }

  const ir::Plan& plan_;
  ir::ParameterUpdates updates_;
  Pipeline pipeline_;
  SyntheticFeed feed_;
  StepRecorder recorder_;
  StepInput input_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

double length_ns(const std::vector<ActionRecord>& records) {
  int64_t first = INT64_MAX, last = 0;
  for (const ActionRecord& record : records) {
    first = std::min(first, record.start_ns);
    last = std::max(last, record.end_ns);
  }
  return records.empty() ? 0 : static_cast<double>(last - first);
}

struct Mean {
  double sum = 0;
  int count = 0;
  void add(const ActionRecord& record) {
    sum += static_cast<double>(record.end_ns - record.start_ns - record.waited_ns);
    ++count;
  }
  /// Returns the mean, or `otherwise` if nothing was added.
  int64_t value(int64_t otherwise) const { return count == 0 ? otherwise : static_cast<int64_t>(sum / count); }
};

/// Duration from the time when the last member has joined.
struct Joined {
  int64_t start = INT64_MIN, end = INT64_MIN;
  void add(const ActionRecord& record) {
    start = std::max(start, record.start_ns);
    end = std::max(end, record.end_ns);
  }
  int64_t value() const { return end > start ? end - start : 0; }  // 0 if no member has
};

/// Times of the actions of one step, averaged over micro-batches.
class Averages {
 public:
  Averages(const ir::Plan& plan, const std::vector<ActionRecord>& records)
      : plan_(plan),
        begins_(plan.begin_ns.size()),
        shared_(plan.shared.size()),
        gathers_(plan.stages.size()),
        steps_(plan.stages.size()) {
    for (const ir::Stage& stage : plan.stages) sums_.emplace_back(std::max<size_t>(1, stage.buckets.size()));
    for (const ActionRecord& record : records) add(record);
    for (const ActionRecord& first : firsts_) add_begin(first);
  }

  MeasuredStages result() const {
    MeasuredStages measured{plan_.stage_times, {}, {}, {}};
    for (const Mean& begin : begins_) measured.begin_ns.push_back(std::max<int64_t>(0, begin.value(0)));
    for (ir::StageTime& time : measured.stage_times) {
      const auto found = passes_.find({time.stage, time.samples});
      if (found == passes_.end()) continue;
      const auto& [forward, rebuild, input, weight] = found->second;
      time.forward_ns = forward.value(time.forward_ns);
      if (rebuild.count > 0) time.rebuild_ns = std::max<int64_t>(1, rebuild.value(0));
      time.weight_ns = weight.value(0);
      time.backward_ns = input.value(time.backward_ns) + time.weight_ns;
    }
    if (!plan_.training) return measured;
    for (size_t s = 0; s < plan_.stages.size(); ++s) measured.finish_times.push_back(finish_time(s, measured));
    for (const Joined& sum : shared_) measured.shared_ns.push_back(sum.value());
    return measured;
  }

 private:
  /// The time from a mark to the end of its pass is that of the plan, in the proportion of the passes.
  ir::FinishTime finish_time(size_t stage, const MeasuredStages& measured) const {
    ir::FinishTime time{StageId::from(stage), 0, steps_[stage].value(0), 0, gathers_[stage].value()};
    double planned_ns = 0, measured_ns = 0;
    for (size_t i = 0; i < plan_.stage_times.size(); ++i) {
      if (plan_.stage_times[i].stage.index() != stage) continue;
      planned_ns += static_cast<double>(plan_.stage_times[i].backward_ns);
      measured_ns += static_cast<double>(measured.stage_times[i].backward_ns);
    }
    const double ratio = planned_ns > 0 ? measured_ns / planned_ns : 0;
    for (size_t i = 0; i < sums_[stage].size(); ++i) {
      const int64_t sum = sums_[stage][i].value();
      time.all_reduce_ns += sum;
      if (plan_.stages[stage].buckets.empty()) continue;
      const bool known = stage < plan_.finish_times.size() && i < plan_.finish_times[stage].sums.size();
      const double ahead = known ? static_cast<double>(plan_.finish_times[stage].sums[i].ahead_ns) : 0;
      time.sums.push_back({sum, static_cast<int64_t>(ahead * ratio)});
    }
    return time;
  }

  using Passes = std::array<Mean, ir::kPasses>;

  void add(const ActionRecord& record) {
    const ir::Action& action = record.action;
    if (ir::is_update(action.kind)) return steps_[action.stage.index()].add(record);
    if (ir::is_of_group(action.kind)) return shared_[action.route].add(record);
    if (ir::is_gather(action.kind)) return gathers_[action.stage.index()].add(record);
    if (ir::is_reduction(action.kind)) return sums_[action.stage.index()][action.micro_batch].add(record);
    if (!ir::is_compute(action.kind)) return;  // messages
    if (ir::is_forward(action.kind) && begins(record)) return firsts_.push_back(record);
    pass(record).add(record);
  }

  /// Whether the action is the first forward pass of a stage with a P on its device.
  bool begins(const ActionRecord& record) {
    const size_t stage = record.action.stage.index();
    return stage < plan_.begin_ns.size() && plan_.begin_ns[stage] > 0 &&
           begun_.insert({record.action.stage, record.device}).second;
  }

  /// Splits a forward pass that ran P by the times of those that did not.
  void add_begin(const ActionRecord& first) {
    Mean& others = pass(first);
    if (others.count == 0) return others.add(first);
    Mean& begin = begins_[first.action.stage.index()];
    begin.add(first);
    begin.sum -= others.sum / others.count;
  }

  /// Mean of the first pass of a computation, by its stage and samples.
  Mean& pass(const ActionRecord& record) {
    return passes_[{record.action.stage, samples(record)}][static_cast<size_t>(ir::first_pass(record.action.kind))];
  }

  uint32_t samples(const ActionRecord& record) const {
    const auto& homes = plan_.stages[record.action.stage.index()].devices;
    const auto replica = static_cast<size_t>(std::find(homes.begin(), homes.end(), record.device) - homes.begin());
    const uint32_t whole = plan_.micro_batches[record.action.micro_batch];
    return static_cast<uint32_t>(ir::replica_samples(whole, replica, homes.size()).size());
  }

  const ir::Plan& plan_;
  std::map<std::pair<StageId, uint32_t>, Passes> passes_;
  std::vector<ActionRecord> firsts_;              // forward passes that ran P
  std::set<std::pair<StageId, DeviceId>> begun_;  // whose first forward pass was found
  std::vector<Mean> begins_;                      // by stage; empty if the plan has no P
  std::vector<std::vector<Joined>> sums_;         // by stage and bucket
  std::vector<Joined> shared_, gathers_;
  std::vector<Mean> steps_;
};

}  // namespace

Result<MeasuredStages> measure_stages(const Bundle& bundle, const ir::Bindings& symbols,
                                      const std::function<void(const std::string&)>& progress) {
  Bench bench(bundle, symbols);
  RANNC_TRY(bench.load(bundle));
  std::vector<std::vector<ActionRecord>> steps;
  double counted = 0, all = 0;
  for (int step = 0;
       step < kMostSteps && (all < kTooMuchNs || steps.empty()) && (step <= kLeastSteps || counted < kEnoughNs);
       ++step) {
    if (progress) progress(fmt::format("step {}", step + 1));
    RANNC_ASSIGN(std::vector<ActionRecord> records, bench.step(static_cast<uint64_t>(step)));
    const double length = length_ns(records);
    all += length;
    if (step == 0) continue;  // the first touches memory for the first time
    counted += length;
    steps.push_back(std::move(records));
  }
  const auto middle = steps.begin() + static_cast<ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end(),
                   [](const auto& a, const auto& b) { return length_ns(a) < length_ns(b); });
  return Averages(bundle.plan, *middle).result();
}

}  // namespace rannc::runtime
