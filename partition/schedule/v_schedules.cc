/// Generates schedules on the V placement: stage r and stage 2·ranks−1−r share rank r.
#include <algorithm>
#include <array>
#include <compare>

#include "partition/schedule/generators.h"

namespace rannc::partition {
namespace {

using ir::Action;
using ir::ActionKind;

/// A row of one rank under construction; chunk 0 goes down the V, chunk 1 back up.
class VRow {
 public:
  VRow(uint32_t ranks, uint32_t rank) : stages_{rank, 2 * ranks - 1 - rank} {}

  void forward(uint32_t chunk) { add(ActionKind::kForward, chunk, forwards[chunk]++); }
  void input(uint32_t chunk) { add(ActionKind::kInputGradient, chunk, inputs[chunk]++); }
  void weight(uint32_t chunk) { add(ActionKind::kWeightGradient, chunk, weights[chunk]++); }
  void add(ActionKind kind, uint32_t chunk, uint32_t micro_batch) {
    row.push_back(ir::compute_action(kind, StageId(stages_[chunk]), micro_batch));
  }

  std::vector<Action> row;
  std::array<uint32_t, 2> forwards{}, inputs{}, weights{};

 private:
  std::array<uint32_t, 2> stages_;
};

std::vector<Action> zb_v_row(uint32_t ranks, uint32_t rank, uint32_t m) {
  VRow row(ranks, rank);
  const auto both = [&](uint32_t chunk) {
    row.input(chunk);
    row.weight(chunk);
  };
  // Warm-up: fill the way down, let both directions share the device, then turn the way up into backward passes.
  for (uint32_t i = 0; i < 2 * (ranks - rank) - 1; ++i) row.forward(0);
  for (uint32_t i = 0; i < rank; ++i) {
    row.forward(1);
    row.forward(0);
  }
  for (uint32_t i = 0; i < ranks - rank; ++i) {
    row.forward(1);
    both(1);
  }
  // Steady: one forward and one whole backward pass of each chunk in turn.
  while (row.forwards[1] < row.forwards[0] || row.forwards[0] < m) {
    if (row.forwards[0] < m) row.forward(0);
    both(0);
    row.forward(1);
    both(1);
  }
  // Drain: input gradients first, because other ranks wait for them. Weight gradients fill idle slots.
  for (uint32_t i = 0; i < rank; ++i) {
    row.input(0);
    row.input(1);
  }
  for (uint32_t i = 0; i < ranks - rank; ++i) {
    row.input(0);
    row.weight(0);
  }
  while (row.weights[1] < row.inputs[1]) row.weight(1);
  while (row.weights[0] < row.inputs[0]) row.weight(0);
  return row.row;
}

// V-Half and V-Min work on slots of equal length. An operation is a pass of a micro-batch over a rank; each rank has
// one operation per slot.
//   1. Repeat the building block every six slots (F, I, W of two chunks).
//   2. Warm-up and drain leave holes: move operations to earlier holes without raising the peak, weight gradients
//      included.
//   3. Start every operation as early as its order allows.
//   4. Repeat this for the drain, with weight gradients in every hole.
//   5. Put the weight gradients of each chunk into the remaining holes.

enum Pass : uint32_t { kDown, kUp, kBackUp, kBackDown, kWeight };
constexpr uint32_t kInterval = 6;
constexpr uint32_t kHole = 0xffffffff;

/// Slots of one rank by pass and micro-batch; kWeight: by number, or none yet.
using RankSlots = std::array<std::vector<uint32_t>, 5>;
using Slots = std::vector<RankSlots>;
using Block = std::vector<std::array<uint32_t, 4>>;  ///< slots of micro-batch 0, by rank

struct Operation {
  uint32_t slot, rank, pass, number;
  auto operator<=>(const Operation&) const = default;
};

bool is_input_gradient(uint32_t pass) { return pass == kBackUp || pass == kBackDown; }

Slots repeat(const Block& block, uint32_t m) {
  Slots slots(block.size());
  for (size_t rank = 0; rank < block.size(); ++rank) {
    for (uint32_t pass = 0; pass < 4; ++pass) {
      for (uint32_t j = 0; j < m; ++j) slots[rank][pass].push_back(block[rank][pass] + kInterval * j);
    }
  }
  return slots;
}

/// Returns the pass in each slot of a rank.
std::vector<uint32_t> grid_of(const RankSlots& slots) {
  uint32_t last = 0;
  for (const auto& pass : slots) last = pass.empty() ? last : std::max(last, pass.back());
  std::vector<uint32_t> grid(last + 1, kHole);
  for (uint32_t pass = 0; pass < slots.size(); ++pass) {
    for (uint32_t slot : slots[pass]) grid[slot] = pass;
  }
  return grid;
}

/// Puts a W into each hole after an I without a W.
void fill_weights(RankSlots& slots) {
  slots[kWeight].clear();
  uint32_t lacking = 0, slot = 0;
  for (uint32_t pass : grid_of(slots)) {
    if (is_input_gradient(pass)) ++lacking;
    if (pass == kHole && lacking > 0) {
      slots[kWeight].push_back(slot);
      --lacking;
    }
    ++slot;
  }
  for (; lacking > 0; --lacking) slots[kWeight].push_back(slot++);
}

/// Returns the largest number of live activations of one chunk. A grid without its own W has one in every hole that
/// allows it.
int peak(const std::vector<uint32_t>& grid, bool has_weights) {
  int live = 0, most = 0;
  uint32_t lacking = 0;
  for (uint32_t pass : grid) {
    live += (pass == kDown || pass == kUp) - (pass == kWeight);
    lacking += is_input_gradient(pass);
    if (pass == kHole && !has_weights && lacking > 0) {
      --live;
      --lacking;
    }
    most = std::max(most, live);
  }
  return most;
}

std::vector<Operation> in_order(const Slots& slots) {
  std::vector<Operation> operations;
  for (uint32_t rank = 0; rank < slots.size(); ++rank) {
    for (uint32_t pass = 0; pass < 5; ++pass) {
      for (uint32_t n = 0; n < slots[rank][pass].size(); ++n) {
        operations.push_back({slots[rank][pass][n], rank, pass, n});
      }
    }
  }
  std::sort(operations.begin(), operations.end());
  return operations;
}

/// Returns the first slot in which the inputs of the operation are available: those of the neighbouring rank, of its
/// own earlier pass and of the micro-batch before.
uint32_t earliest(const Slots& slots, const Operation& o) {
  uint32_t slot = 0;
  const auto after = [&](uint32_t rank, uint32_t pass, uint32_t number) {
    slot = std::max(slot, slots[rank][pass][number] + 1);
  };
  const bool from_above = o.pass == kDown || o.pass == kBackUp;
  const bool from_below = o.pass == kUp || o.pass == kBackDown;
  if (from_above && o.rank > 0) after(o.rank - 1, o.pass, o.number);
  if (from_below && o.rank + 1 < slots.size()) after(o.rank + 1, o.pass, o.number);
  if (o.pass == kUp || is_input_gradient(o.pass)) after(o.rank, o.pass - 1, o.number);
  if (o.number > 0) after(o.rank, o.pass, o.number - 1);
  return slot;
}

/// Steps 2 and 4. The steady part stays, from rank 0's first finished micro-batch to the entry of the last micro-batch.
void move_to_holes(Slots& slots, bool with_weights) {
  std::vector<std::vector<uint32_t>> grids;
  int limit = 0;
  for (RankSlots& rank : slots) {
    if (with_weights) fill_weights(rank);
    grids.push_back(grid_of(rank));
    limit = std::max(limit, peak(grids.back(), with_weights));
  }
  std::vector<std::vector<uint32_t>> gradient_slots(slots.size());  // of the I, in order, as moved so far
  enum { kWarmUp, kSteady, kDrain } phase = kWarmUp;
  for (const Operation& o : in_order(slots)) {
    auto& grid = grids[o.rank];
    if (phase == kWarmUp && o.pass == kBackDown && o.rank == 0) phase = kSteady;
    const bool stays = phase == kSteady || (phase == kWarmUp && !with_weights);
    if (phase == kSteady && o.pass == kDown && o.number + 1 == slots[0][kDown].size()) phase = kDrain;
    uint32_t first = earliest(slots, o);
    if (o.pass == kWeight) first = std::max(first, gradient_slots[o.rank][o.number] + 1);
    uint32_t chosen = o.slot;
    grid[o.slot] = kHole;
    for (uint32_t slot = first; slot < o.slot && !stays && chosen == o.slot; ++slot) {
      if (grid[slot] != kHole) continue;
      grid[slot] = o.pass;
      if (peak(grid, with_weights) <= limit) chosen = slot;
      grid[slot] = kHole;
    }
    grid[chosen] = o.pass;
    slots[o.rank][o.pass][o.number] = chosen;
    if (is_input_gradient(o.pass)) {
      auto& moved = gradient_slots[o.rank];
      moved.insert(std::upper_bound(moved.begin(), moved.end(), chosen), chosen);
    }
  }
}

/// Step 3: returns slots of a run in which every operation takes one slot and ranks keep their order.
void squeeze(Slots& slots) {
  std::vector<uint32_t> next(slots.size(), 0);
  for (const Operation& o : in_order(slots)) {
    const uint32_t slot = std::max(next[o.rank], earliest(slots, o));
    slots[o.rank][o.pass][o.number] = slot;
    next[o.rank] = slot + 1;
  }
}

/// Step 5: returns the rank's operations in the order of slots. Holes take a W of chunk 1 first, because its I came
/// first.
std::vector<Action> finish_row(const RankSlots& slots, uint32_t ranks, uint32_t rank) {
  VRow row(ranks, rank);
  for (uint32_t pass : grid_of(slots)) {
    if (pass == kDown || pass == kUp) row.forward(pass == kUp);
    if (is_input_gradient(pass)) row.input(pass == kBackUp);
    if (pass != kHole) continue;
    if (row.weights[1] < row.inputs[1]) {
      row.weight(1);
    } else if (row.weights[0] < row.inputs[0]) {
      row.weight(0);
    }
  }
  while (row.weights[1] < row.inputs[1]) row.weight(1);
  while (row.weights[0] < row.inputs[0]) row.weight(0);
  return row.row;
}

Rows moved_rows(const Block& block, uint32_t m) {
  Slots slots = repeat(block, m);
  for (const bool with_weights : {true, false}) {
    move_to_holes(slots, with_weights);
    if (!with_weights) break;
    squeeze(slots);
    for (RankSlots& rank : slots) rank[kWeight].clear();
  }
  Rows rows;
  for (RankSlots& rank : slots) fill_weights(rank);
  squeeze(slots);
  for (uint32_t r = 0; r < slots.size(); ++r) {
    slots[r][kWeight].clear();
    rows.push_back(finish_row(slots[r], static_cast<uint32_t>(slots.size()), r));
  }
  return rows;
}

/// Repeats the period from the first forward pass of micro-batch `from` to that of the next one `times` more.
std::vector<Action> with_periods(const std::vector<Action>& row, uint32_t rank, uint32_t from, uint32_t times) {
  const auto entry = [&](uint32_t micro_batch) {
    return std::find(row.begin(), row.end(), ir::compute_action(ActionKind::kForward, StageId(rank), micro_batch));
  };
  const auto first = entry(from), next = entry(from + 1);
  const auto add = [](std::vector<Action>& to, auto begin, auto end, uint32_t shift) {
    for (; begin != end; ++begin) {
      to.push_back(*begin);
      to.back().micro_batch += shift;
    }
  };
  std::vector<Action> longer(row.begin(), next);
  for (uint32_t i = 1; i <= times; ++i) add(longer, first, next, i);
  add(longer, next, row.end(), times);
  return longer;
}

/// Moves take quadratic time and more. In the middle of a long row they change nothing: it repeats with a period of one
/// micro-batch, so a shorter row is extended.
Rows rows_of(const Block& block, uint32_t m) {
  const auto ranks = static_cast<uint32_t>(block.size());
  const uint32_t enough = 4 * ranks + 8;
  if (m <= enough) return moved_rows(block, m);
  Rows rows = moved_rows(block, enough);
  for (uint32_t r = 0; r < ranks; ++r) rows[r] = with_periods(rows[r], r, enough / 2, m - enough);
  return rows;
}

}  // namespace

Rows zb_v_rows(uint32_t ranks, uint32_t micro_batches) {
  // The pattern needs 2·ranks−1 micro-batches. Fewer are obtained by removing the others.
  const uint32_t m = std::max(2 * ranks - 1, micro_batches);
  Rows rows;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    rows.push_back(zb_v_row(ranks, rank, m));
    std::erase_if(rows.back(), [&](const Action& action) { return action.micro_batch >= micro_batches; });
  }
  return rows;
}

Rows v_half_rows(uint32_t ranks, uint32_t micro_batches) {
  if (micro_batches == 0) return Rows(ranks);
  const uint32_t gap = ranks % 2 == 0 ? 3 : 0;
  Block block;
  for (uint32_t r = 0; r < ranks; ++r) {
    block.push_back({2 * r, 3 * ranks - r - 2, 3 * ranks + gap + 2 * r - 1, 6 * ranks + gap - r - 2});
  }
  return rows_of(block, micro_batches);
}

Rows v_min_rows(uint32_t ranks, uint32_t micro_batches) {
  if (micro_batches == 0) return Rows(ranks);
  const uint32_t gap = ranks % 3 == 0 ? 2 : 0;
  Block block;
  for (uint32_t r = 0; r < ranks; ++r) {
    block.push_back({r, 2 * ranks - r - 1, 2 * ranks + gap + r, 4 * ranks + gap - r - 1});
  }
  return rows_of(block, micro_batches);
}

}  // namespace rannc::partition
