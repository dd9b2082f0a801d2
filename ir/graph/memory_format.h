/// In which order the elements of [samples, channels, height, width] lie in memory: as the axes say, or channels last.
#pragma once

#include <string_view>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// The flag of operators that compute in either order: operand 0 and the result lie channels last.
inline constexpr std::string_view kChannelsLast = "channels_last";
/// The text of operators that have several kernels.
inline constexpr std::string_view kAlgorithm = "algorithm";

/// Whether the operator of a task has the flag for these operands: they are of rank 4.
bool has_memory_format(const Graph& graph, TaskId task);
/// Whether a task reads an operand channels last: as its flag says of operand 0, a task that changes the order the
/// other way round; else as the operand lies.
bool reads_channels_last(const Graph& graph, const std::vector<bool>& channels_last, TaskId task, size_t operand);
/// The operands that together say how LibTorch lays the result of a task out: of an elementwise one the first of the
/// result's sizes, of a concatenation all, which have to agree. None: of other tasks, or where no operand has the
/// sizes.
std::vector<ValueId> laid_out_as(const Graph& graph, TaskId task);

/// By value, whether it lies channels last: results whose tasks say so, and what is laid out after them. It is a fact
/// of the graph, not of a run: what a stage receives is laid out so, and so is a gradient. Linear.
std::vector<bool> channels_last(const Graph& graph);

}  // namespace rannc::ir
