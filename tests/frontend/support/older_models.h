/// Cases of single operators rewritten for older operator sets.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/frontend/support/node_cases.h"

namespace rannc::test {

/// The versions of each operator of the default domain that operator sets 7 to 27 have, by the first of these sets.
/// Versions that ONNX has withdrawn are left out where nothing translates them.
struct VersionsOfOperator {
  std::string op;
  std::vector<int> opsets;
};
std::vector<VersionsOfOperator> operator_versions();

/// Operators with a version whose text or signature says other things than the one before, types aside: `ReduceSum 13`.
std::vector<std::pair<std::string, int>> changed_versions();

/// The model of a case of one node as operator set `opset` spells it: operands that were attributes become these,
/// attributes that are not yet there and have their default go. Nothing where it cannot be said there.
std::optional<std::string> at_opset(const NodeCase& found, int opset);

}  // namespace rannc::test
