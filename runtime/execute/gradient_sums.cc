#include "runtime/execute/internal/gradient_sums.h"

#include <algorithm>
#include <utility>

namespace rannc::runtime {

using ir::Action;

GradientSums::GradientSums(const Pipeline& pipeline, const ir::Dependencies& dependencies,
                           const std::vector<Program*>& programs, Transport& transport, const std::vector<Action>& row,
                           Watch watch)
    : pipeline_(pipeline),
      dependencies_(dependencies),
      programs_(programs),
      transport_(transport),
      row_(row),
      watch_(std::move(watch)) {
  for (StageId stage : dependencies_.stages_on(device())) {
    const ir::StageShape& shape = pipeline_.shape.stages[stage.index()];
    if (pipeline_.shape.training && shape.sharded)
      shares_.try_emplace(stage, stage, shape.devices, pipeline_.shares[stage.index()], program(stage), transport_);
  }
  for (size_t i = 0; i < row_.size(); ++i) {
    if (ir::is_reduction(row_[i].kind)) order_.push_back(i);
  }
}

Carried GradientSums::carried(StageId stage) const {
  const bool first = dependencies_.replica(stage, device()) == 0;
  Carried kept{std::vector<bool>(pipeline_.stages[stage.index()].parameters.size(), first), first};
  for (uint32_t group : dependencies_.groups_of(stage)) {
    if (pipeline_.shape.shared[group].stages.front() != stage) kept.gradients[slot(group, stage)] = false;
  }
  return kept;
}

uint32_t GradientSums::slot(uint32_t group, StageId stage) const {
  const auto& stages = pipeline_.shape.shared[group].stages;
  const auto it = std::find(stages.begin(), stages.end(), stage);
  return pipeline_.shared[group][static_cast<size_t>(it - stages.begin())];
}

void GradientSums::begin_step(uint64_t step, bool overlaps, bool updates) {
  step_ = step;
  overlaps_ = overlaps;
  updates_ = updates;
  next_ = 0;
  final_.clear();
  end_step();
}

void GradientSums::end_step() {
  begun_.clear();
  spans_.clear();
}

Result<void> GradientSums::pass_marks(StageId stage, size_t count) {
  final_[stage] = count;
  return begin_final();
}

Result<void> GradientSums::begin_final() {
  const auto is_final = [&](const Action& action) {
    const auto found = final_.find(action.stage);
    return !ir::is_of_group(action.kind) && found != final_.end() && action.micro_batch < found->second;
  };
  while (next_ < order_.size() && is_final(row_[order_[next_]])) {
    const size_t position = order_[next_++];
    const Result<void> begun = begin(position);
    if (!begun.ok()) watch_.failed(position);
    RANNC_TRY(begun);
  }
  return {};
}

Result<void> GradientSums::reach(size_t position) {
  if (next_ >= order_.size() || order_[next_] > position) return {};
  RANNC_CHECK(order_[next_] == position) << "sums begin in the order of the row";
  ++next_;
  RANNC_TRY(begin(position));
  return overlaps_ ? begin_final() : await_all();
}

void GradientSums::open(size_t position) { spans_[position] = {now_ns(), 0, 0, watch_.stamp(), 1}; }

void GradientSums::close(size_t position) {
  Span& span = spans_.at(position);
  if (--span.sums > 0) return;
  span.end_ns = std::max(span.start_ns, span.end_ns);
  watch_.ended(row_[position], std::move(span));
  spans_.erase(position);
}

Result<void> GradientSums::begin(size_t position) {
  const Action& action = row_[position];
  open(position);
  if (ir::is_of_group(action.kind)) {
    RANNC_TRY(begin_group(position));
  } else {
    // An action is the sum of one bucket, or of all that are not in the plan.
    const size_t all = buckets(action.stage), parts = pipeline_.shape.stages[action.stage.index()].sums;
    const size_t first = parts > 1 ? action.micro_batch : 0, last = parts > 1 ? first + 1 : all;
    const bool to_shares = action.kind == ir::ActionKind::kReduceScatter && updates_;
    for (size_t bucket = first; bucket < last; ++bucket)
      RANNC_TRY(to_shares ? begin_shares(position, bucket) : begin_bucket(position, bucket));
    if (last == all) RANNC_TRY(begin_statistics(position));
  }
  close(position);
  return {};
}

// The program releases its terms.
Result<void> GradientSums::begin_bucket(size_t position, size_t bucket) {
  const StageId stage = row_[position].stage;
  const ir::ParameterBucket& parameters = pipeline_.buckets[stage.index()][bucket];
  Values terms = program(stage).gradients(parameters);
  program(stage).set_gradients(parameters, Values(parameters.size()));
  const CollectiveKey key{step_, CollectiveKey::Kind::kAllReduce, stage.index(), static_cast<uint32_t>(bucket)};
  return begin_sum({.position = position, .stage = stage, .parameters = parameters}, key, std::move(terms));
}

Result<void> GradientSums::begin_shares(size_t position, size_t bucket) {
  const StageId stage = row_[position].stage;
  RANNC_ASSIGN(auto rounds,
               shares_.at(stage).begin_reduce_scatter(step_, bucket, pipeline_.buckets[stage.index()][bucket]));
  for (std::unique_ptr<PendingSum>& round : rounds) {
    ++spans_.at(position).sums;
    begun_.push_back({.position = position, .stage = stage, .of_shares = true, .sum = std::move(round)});
  }
  return {};
}

Result<void> GradientSums::begin_statistics(size_t position) {
  const StageId stage = row_[position].stage;
  Values statistics = program(stage).statistics();
  if (statistics.empty()) return {};
  const CollectiveKey key{step_, CollectiveKey::Kind::kAllReduce, stage.index(), static_cast<uint32_t>(buckets(stage))};
  return begin_sum({.position = position, .stage = stage, .of_statistics = true}, key, std::move(statistics));
}

Result<void> GradientSums::begin_group(size_t position) {
  const uint32_t group = row_[position].route;
  Value total;
  for (StageId stage : pipeline_.shape.shared[group].stages) {
    if (dependencies_.replica(stage, device()) < 0) continue;
    const uint32_t index = slot(group, stage);
    const Value own = program(stage).gradients({&index, 1}).front();
    program(stage).set_gradients({&index, 1}, {nullptr});
    total = total == nullptr ? own : total->plus(*own);
  }
  Values terms;
  terms.push_back(std::move(total));
  return begin_sum({.position = position}, {step_, CollectiveKey::Kind::kReduceShared, group}, std::move(terms));
}

Result<void> GradientSums::begin_sum(Begun sum, const CollectiveKey& key, Values values) {
  const std::vector<DeviceId> members = dependencies_.members(row_[sum.position]);
  if (members.size() < 2) {
    finish(sum, std::move(values));
    return {};
  }
  RANNC_ASSIGN(sum.sum, transport_.begin_all_reduce(key, members, std::move(values)));
  ++spans_.at(sum.position).sums;
  begun_.push_back(std::move(sum));
  return {};
}

void GradientSums::finish(const Begun& sum, Values sums) {
  const Action& action = row_[sum.position];
  if (sum.of_statistics) return program(sum.stage).set_statistics(std::move(sums));
  if (sum.of_shares) return;  // they have replaced its terms
  if (!ir::is_of_group(action.kind)) return program(sum.stage).set_gradients(sum.parameters, std::move(sums));
  for (StageId stage : pipeline_.shape.shared[action.route].stages) {
    if (dependencies_.replica(stage, device()) < 0) continue;
    const uint32_t index = slot(action.route, stage);
    program(stage).set_gradients({&index, 1}, sums);
  }
}

bool GradientSums::concerns(const Begun& sum, StageId stage) const {
  if (!ir::is_of_group(row_[sum.position].kind)) return sum.stage == stage;
  const auto& stages = pipeline_.shape.shared[row_[sum.position].route].stages;
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

Result<void> GradientSums::await(Begun sum) {
  watch_.waits(sum.position);
  Span& span = spans_.at(sum.position);
  const int64_t start = now_ns();
  RANNC_ASSIGN(Values sums, sum.sum->wait());
  span.end_ns = std::max(span.end_ns, sum.sum->finished_ns());
  span.waited_ns += std::max<int64_t>(0, span.end_ns - start);
  finish(sum, std::move(sums));
  close(sum.position);
  return {};
}

Result<void> GradientSums::await(StageId stage) {
  for (size_t i = 0; i < begun_.size();) {
    if (!concerns(begun_[i], stage)) {
      ++i;
      continue;
    }
    Begun sum = std::move(begun_[i]);
    begun_.erase(begun_.begin() + static_cast<std::ptrdiff_t>(i));
    RANNC_TRY(await(std::move(sum)));
  }
  return {};
}

Result<void> GradientSums::await_all() {
  while (!begun_.empty()) {
    Begun sum = std::move(begun_.front());
    begun_.pop_front();
    RANNC_TRY(await(std::move(sum)));
  }
  return {};
}

Result<void> GradientSums::all_gather(StageId stage) { return shares_.at(stage).all_gather(step_); }

}  // namespace rannc::runtime
