/// Calls of core operators with the tasks of their gradients.
#pragma once

#include <vector>

#include "ir/graph/graph.h"
#include "tests/codegen/prepared_case.h"

namespace rannc::ir::testing {

/// One case as a graph of one task, then its gradient tasks for inputs that stand for the results' gradients.
struct Joint {
  Graph graph;
  TaskId task;
  std::vector<ValueId> seeds;  ///< by result; invalid: no gradient
  std::vector<ValueId> given;  ///< by operand; invalid: none wanted
  bool has_rule = false;       ///< or none was asked for
};

/// What is asked of the rule. Bits of the masks: operands whose gradient is wanted where they are floats, results that
/// a gradient reaches where they have one.
struct Asked {
  uint64_t wanted = ~uint64_t{0}, read = ~uint64_t{0};
  Mix mix = Mix::kNone;    ///< of the results' gradients; none as the runtime seeds losses
  bool by_vjp = false;     ///< as if the operator had no rule
  bool scattered = false;  ///< elements of operands and gradients lie apart, axes in another order
};

Joint join(const OpCase& c, const Prepared& made, Asked requested = {});
/// Whether the call has results that are no auxiliary ones of the first: gradients may reach any of them.
bool has_several_results(const OpCase& c);
/// Whether floats go in and come out of a forward operator.
bool has_gradient(const OpCase& c, const Prepared& made);

}  // namespace rannc::ir::testing
