/// Creates tasks for calls of LibTorch operators that have no core operator.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/op/foreign.h"

namespace rannc::frontend::torchscript {

/// An argument of a call. Omitted parameters have their defaults.
struct ForeignArgument {
  /// A list of tensors, some of which may be None.
  using Tensors = std::vector<std::optional<ir::ValueType>>;
  struct None {};
  struct Device {};  ///< the device of the program
  std::string parameter;
  std::variant<None, Device, ir::ValueType, Tensors, ir::Attribute> value;
};

/// Task for a call. Its operands are the tensor arguments in order, with lists flattened and None as absent.
struct ForeignTask {
  std::string op;  ///< argument of `Graph::foreign_op`
  ir::Attributes attributes;
  std::vector<ir::ValueType> results;
};

/// Returns the task for a call, with the types and batch axes of its results. Runs the operator. LibTorch's messages
/// become part of diagnostics.
///
/// Types come from the operator's meta kernel if it supports symbolic sizes or no size is symbolic. Otherwise they are
/// fitted to runs at several small sizes on the meta device, or on the CPU if there is no meta kernel. Fitted types are
/// guesses, which every run asserts. Batch axes are found by runs on synthetic numbers: the results for parts of a
/// mini-batch must be the parts of the result for the whole. A result that is a sum over samples is partial. One that
/// mixes samples in any other way is mixed.
///
/// Rejects, with the reason: unknown operators, operators that write to operands, have side effects, draw random
/// numbers, return no tensors or have data-dependent result sizes, and arguments that a task cannot represent.
Result<ForeignTask> foreign_task(const std::string& schema, const std::vector<ForeignArgument>& arguments,
                                 std::string_view batch_symbol);

}  // namespace rannc::frontend::torchscript
