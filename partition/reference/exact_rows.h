/// Finds the least makespan of all row orders of a small cut, as an oracle for searches and bounds.
#pragma once

#include <cstdint>
#include <optional>

#include "partition/schedule/found/row_problem.h"

namespace rannc::partition {

/// Returns the least makespan, without contention, of all words (`found/row_words.h`) within the limits of the lanes,
/// as the longest-path model prices them; infinity: none fits. None after more than `states` states. `most`: a makespan
/// that is known to be possible; prunes.
///
/// Branch and bound over layers: a layer holds the states after n actions, by how many passes each slot has done. Of
/// two states with equal counts, one whose clocks and pending messages are all no later dominates the other, because
/// every completion of the other is possible for it and no later. Lanes advance independently, so states of one layer
/// may lie at different times. Up to about 3 stages x 5 or 4 x 4 micro-batches.
std::optional<double> exact_row_makespan(const found::RowProblem& problem, double most = found::kNever,
                                         uint64_t states = 3'000'000);

}  // namespace rannc::partition
