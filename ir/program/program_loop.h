/// A loop that computes several tasks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/op/loop.h"

namespace rannc::ir {

/// Tasks that one compiled loop computes. Its inputs are the operands of the instruction, its outputs the results.
struct ProgramLoop {
  /// An operand: an input of the loop, or a result of an earlier member.
  struct Operand {
    bool is_made = false;
    uint32_t index = 0;   ///< of the input, or of the member
    uint32_t result = 0;  ///< of the member
  };
  struct Member {
    TaskId task;
    LoopTask loop;
    std::vector<std::optional<Operand>> operands;  ///< nothing: absent
    std::vector<DType> types;                      ///< of its results
  };
  /// Random numbers of `value`. Those of a sample lie one after the other.
  struct Random {
    ValueId value;
    RandomInput random;
    Dim elements;  ///< of a sample
    bool operator==(const Random&) const = default;
  };
  struct Input {
    LoopValue value;
    DType dtype = DType::kF32;
    std::optional<int64_t> ignored;  ///< of labels
    std::optional<Random> random;    ///< random numbers that the loop makes; the operand is absent
  };
  struct Output {
    uint32_t member = 0, result = 0;
    std::optional<uint32_t> random;  ///< instead of a result: numbers that the loop makes for this input
    DType dtype = DType::kF32;
    Shape sizes;
  };
  DType dtype = DType::kF32;
  bool by_rows = false;
  Dim rows, columns;
  std::vector<Member> members;
  std::vector<Input> inputs;
  std::vector<Output> outputs;

  /// Sizes in the order in which the loop names them.
  template <class Visit>
  void for_each_size(Visit&& visit) const {
    visit(rows), visit(columns);
    for (const Input& input : inputs) {
      visit(input.value.divisor), visit(input.value.period);
      visit(input.value.outer_divisor), visit(input.value.outer_period);
      if (input.random) visit(input.random->elements);
    }
    for (const Output& output : outputs) {
      for (const Dim& size : output.sizes) visit(size);
    }
  }
};

}  // namespace rannc::ir
