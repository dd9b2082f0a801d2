/// Operators of LibTorch's dispatcher that have no core operator: which of them a model may call, and what a task says
/// of such a call.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/op/foreign.h"

namespace rannc::frontend::torchscript {

/// An argument of a call. Parameters that are not given take their defaults.
struct ForeignArgument {
  /// A list of tensors, of which some may be None.
  using Tensors = std::vector<std::optional<ir::ValueType>>;
  struct None {};
  struct Device {};  ///< that of the program
  std::string parameter;
  std::variant<None, Device, ir::ValueType, Tensors, ir::Attribute> value;
};

/// A task of the call. Its operands are the tensors given, in their order: lists one by one, None as absent.
struct ForeignTask {
  std::string op;  ///< of `Graph::foreign_op`
  ir::Attributes attributes;
  std::vector<ir::ValueType> results;
};

/// What the task of a call says: types of the results, and where their samples are.
///
/// Types come from the operator's meta kernel, where it takes symbolic sizes or where nothing is symbolic; else from
/// runs at several small sizes on the meta device or, where the operator has no such kernel, on the processor: then
/// they are guessed, and asserted by every run. Where samples are is found by runs on made-up numbers: parts of a
/// mini-batch are to give the parts of what the whole gives. A result that is a sum over samples is partial, one that
/// mixes them otherwise is mixed. Runs the operator; LibTorch's own messages go into diagnostics.
///
/// Refused, by name and reason: operators that are not there, that write into operands, that have effects beside their
/// results or draw random numbers, that give no tensors, or as many numbers as the data say, and arguments that a task
/// cannot say.
Result<ForeignTask> foreign_task(const std::string& schema, const std::vector<ForeignArgument>& arguments,
                                 std::string_view batch_symbol);

}  // namespace rannc::frontend::torchscript
