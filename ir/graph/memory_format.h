/// Memory format of values of shape [samples, channels, height, width]: contiguous or channels last.
#pragma once

#include <string_view>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Flag of operators that support both formats: operand 0 and the result are channels last.
inline constexpr std::string_view kChannelsLast = "channels_last";
/// Text attribute of operators that have several kernels.
inline constexpr std::string_view kAlgorithm = "algorithm";

/// Whether a task may have the flag `channels_last`: its operator has it, and operand 0 has rank 4.
bool has_memory_format(const Graph& graph, TaskId task);
/// Whether a task reads an operand channels last. For operand 0 the task's flag decides; a task that converts between
/// formats reads the opposite of its flag. Any other operand is read in its own format.
bool reads_channels_last(const Graph& graph, const std::vector<bool>& channels_last, TaskId task, size_t operand);
/// The operands that determine the memory format in which LibTorch creates a task's result. For an elementwise task:
/// the first operand of the result's shape. For a concatenation: all operands, which have to agree. Empty for other
/// tasks, or if no operand has that shape.
std::vector<ValueId> laid_out_as(const Graph& graph, TaskId task);

/// Whether LibTorch creates the results of an operator element by element, in the memory format of an operand.
bool is_elementwise(const OpInfo& op);
/// The first operand of the shape of a task's result; invalid if there is none.
ValueId operand_like_result(const Graph& graph, TaskId task);

/// Whether each value is channels last: results of tasks with the flag, and results that take their format from those.
/// The format is a property of the graph, not of a run: received values and gradients have it too. Linear.
std::vector<bool> channels_last(const Graph& graph);

}  // namespace rannc::ir
