/// The verifier's verdict against an exhaustive small-step oracle, on mutated schedules.
#include <gtest/gtest.h>

#include <random>

#include "ir/schedule/lower_schedule.h"
#include "ir/schedule/verify_schedule.h"
#include "tests/ir/schedule/schedule_oracle.h"

namespace rannc::ir {
namespace {

struct Base {
  const char* name;
  PipelineShape shape;
  Schedule schedule;
};

Base lowered(const char* name, PipelineShape shape, const std::string& rows) {
  auto schedule = lower_schedule(shape, add_recompute(shape, parse_schedule(rows, shape).value()));
  EXPECT_TRUE(schedule.ok()) << name;
  return {name, std::move(shape), *schedule};
}

/// Small pipelines that together use every kind of action, route and limit.
std::vector<Base> bases() {
  std::vector<Base> result;
  result.push_back(lowered("1f1b", chain_shape(2, 3), "0: F0 F1 B0 F2 B1 B2\n1: F0 B0 F1 B1 F2 B2\n"));
  result.push_back(lowered("gpipe", chain_shape(2, 2), "0: F0 F1 B1 B0\n1: F0 F1 B1 B0\n"));

  PipelineShape split = chain_shape(3, 2);
  for (auto& stage : split.stages) stage.pending_bytes = 1;
  split.routes.push_back({StageId(0), StageId(2), 1, true});
  split.memory_bytes = {7, 7, 7};
  result.push_back(lowered("split backward, skip, memory", split,
                           "0: F0 F1 I0 W0 I1 W1\n1: F0 F1 I0 I1 W0 W1\n2: F0 I0 F1 I1 W0 W1\n"));

  PipelineShape recompute = chain_shape(2, 2);
  for (auto& stage : recompute.stages) stage = {stage.devices, true, 10, 4, 1, 0, 2};
  recompute.routes[0].bytes_per_sample = 1;
  recompute.memory_bytes = {19, 18};
  result.push_back(lowered("recompute, tight memory", recompute, "0: F0 F1 B0 B1\n1: F0 B0 F1 B1\n"));

  PipelineShape v = chain_shape(4, 2);
  v.devices = 2;
  v.stages[2].devices = {DeviceId(1)};
  v.stages[3].devices = {DeviceId(0)};
  v.shared.push_back({{StageId(0), StageId(3)}, 1});
  result.push_back(lowered("V, shared on one device", v,
                           "0: F0.0 F0.1 F3.0 B3.0 F3.1 B3.1 B0.0 B0.1\n1: F1.0 F2.0 F1.1 F2.1 B2.0 B1.0 B2.1 B1.1\n"));

  PipelineShape replicas = chain_shape(2, 2);
  replicas.devices = 3;
  replicas.stages[0].devices = {DeviceId(0), DeviceId(1)};
  replicas.stages[1].devices = {DeviceId(2)};
  replicas.micro_batches = {2, 1};
  replicas.shared.push_back({{StageId(0), StageId(1)}, 1});
  result.push_back(lowered("uneven replicas, shared", replicas, "0: F0 F1 B0 B1\n1: F0 F1 B0 B1\n2: F0 B0 F1 B1\n"));

  PipelineShape parallel = chain_shape(2, 1);
  for (auto& stage : parallel.stages) stage.devices = {DeviceId(0), DeviceId(1)};
  parallel.micro_batches = {2};
  result.push_back(lowered("two replicated stages on the same devices", parallel,
                           "0: F0.0 F1.0 B1.0 B0.0\n1: F0.0 F1.0 B1.0 B0.0\n"));

  for (auto& stage : parallel.stages) stage.sharded = true;
  parallel.shared.push_back({{StageId(0), StageId(1)}, 1});
  result.push_back(lowered("two sharded stages on the same devices, shared", parallel,
                           "0: F0.0 F1.0 B1.0 B0.0\n1: F0.0 F1.0 B1.0 B0.0\n"));

  PipelineShape inference = chain_shape(3, 2);
  inference.training = false;
  inference.routes.push_back({StageId(0), StageId(2)});
  result.push_back(lowered("inference", inference, "0: F0 F1\n1: F0 F1\n2: F0 F1\n"));

  PipelineShape integers = chain_shape(2, 2);
  integers.routes.push_back({StageId(0), StageId(1), 1, false});
  result.push_back(lowered("integer route", integers, "0: F0 F1 B0 B1\n1: F0 B0 F1 B1\n"));
  return result;
}

class Mutator {
 public:
  Mutator(const PipelineShape& shape, uint64_t seed) : shape_(shape), random_(seed) {}

  void mutate(Schedule& schedule) {
    const uint32_t count = pick(3) + 1;
    for (uint32_t i = 0; i < count; ++i) mutate_once(schedule);
  }

 private:
  uint32_t pick(size_t limit) { return static_cast<uint32_t>(random_() % limit); }

  void mutate_once(Schedule& schedule) {
    auto& row = schedule.rows[pick(schedule.rows.size())];
    if (row.size() < 2) return;
    const uint32_t at = pick(row.size());
    switch (pick(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return std::swap(row[at], row[at + 1 < row.size() ? at + 1 : at - 1]);
      case 4:
        return std::swap(row[at], row[pick(row.size())]);
      case 5:
        row.erase(row.begin() + at);
        return;
      case 6:
        row.insert(row.begin() + pick(row.size() + 1), row[at]);
        return;
      case 7:
        return move(row, at, pick(row.size()));
      case 8:
        return alter(row[at]);
      case 9:
        return insert_recompute(row, at);
      case 10:
        return swap_messages(schedule);
      default:
        return drop_message(schedule, row[at]);
    }
  }

  static void move(std::vector<Action>& row, uint32_t from, uint32_t to) {
    const Action action = row[from];
    row.erase(row.begin() + from);
    row.insert(row.begin() + std::min<size_t>(to, row.size()), action);
  }

  void alter(Action& action) {
    switch (pick(5)) {
      case 0:
        action.micro_batch = pick(shape_.micro_batches.size());
        return;
      case 1:
        action.stage = StageId(pick(shape_.stages.size()));
        return;
      case 2:
        action.route = pick(shape_.routes.size() + 1);
        return;
      case 3:
        action.peer = DeviceId(pick(shape_.devices));
        return;
      default:
        action.kind = static_cast<ActionKind>(pick(kActionKinds));
    }
  }

  static void insert_recompute(std::vector<Action>& row, uint32_t at) {
    Action action = row[at];
    if (!is_compute(action.kind)) return;
    action.kind = ActionKind::kRecompute;
    row.insert(row.begin() + at + 1, action);
  }

  /// Exchanges two neighbouring messages of one pair on both sides, which may be harmless.
  void swap_messages(Schedule& schedule) {
    const uint32_t d = pick(schedule.rows.size());
    auto& row = schedule.rows[d];
    for (uint32_t i = 0; i + 1 < row.size(); ++i) {
      if (!is_send(row[i].kind) || !is_send(row[i + 1].kind) || row[i].peer != row[i + 1].peer) continue;
      auto& other = schedule.rows[row[i].peer.index()];
      const auto find = [&](const Action& sent) {
        return std::find_if(other.begin(), other.end(), [&](const Action& a) {
          return is_receive(a.kind) && a.route == sent.route && a.micro_batch == sent.micro_batch &&
                 a.peer == DeviceId(d);
        });
      };
      const auto a = find(row[i]), b = find(row[i + 1]);
      if (a == other.end() || b == other.end()) return;
      std::iter_swap(a, b);
      return std::swap(row[i], row[i + 1]);
    }
  }

  /// Removes both ends of a message.
  static void drop_message(Schedule& schedule, const Action action) {
    if (!is_send(action.kind) && !is_receive(action.kind)) return;
    for (auto& row : schedule.rows) {
      std::erase_if(row, [&](const Action& a) {
        return (is_send(a.kind) || is_receive(a.kind)) && a.route == action.route &&
               a.micro_batch == action.micro_batch &&
               (a.kind <= ActionKind::kReceiveActivation) == (action.kind <= ActionKind::kReceiveActivation);
      });
    }
  }

  const PipelineShape& shape_;
  std::mt19937_64 random_;
};

TEST(ScheduleMutation, VerdictEqualsTheOracles) {
  const uint32_t kPerBase = 12'000;  // 120,000 in all
  uint32_t good = 0, bad = 0;
  std::map<std::string, uint32_t> rules;
  for (const Base& base : bases()) {
    ASSERT_EQ(oracle::fault(base.shape, base.schedule), "") << base.name << "\n" << print_schedule(base.schedule);
    for (uint32_t seed = 0; seed < kPerBase; ++seed) {
      Schedule mutant = base.schedule;
      Mutator(base.shape, seed).mutate(mutant);
      const std::string expected = oracle::fault(base.shape, mutant);
      const auto found = verify_schedule(base.shape, mutant);
      ASSERT_EQ(found.empty(), expected.empty()) << base.name << ", seed " << seed << "\noracle: " << expected
                                                 << "\nverifier: " << (found.empty() ? "" : found[0].str()) << "\n"
                                                 << print_schedule(mutant);
      ++(found.empty() ? good : bad);
      for (const Diagnostic& d : found) ++rules[d.rule];
    }
  }
  // Both verdicts, and every rule, have to occur often for the comparison to mean something.
  EXPECT_GT(good, 5'000u);
  EXPECT_GT(bad, 50'000u);
  for (int rule = 1; rule <= 13; ++rule) EXPECT_GT(rules["S" + std::to_string(rule)], 20u) << "S" << rule;
  RecordProperty("good", static_cast<int>(good));
  RecordProperty("bad", static_cast<int>(bad));
  std::string summary;
  for (const auto& [rule, count] : rules) summary += rule + ":" + std::to_string(count) + " ";
  RecordProperty("rules", summary);
}

}  // namespace
}  // namespace rannc::ir
