/// Random calls of every integer operator, which suites hold against what LibTorch computes.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tests/codegen/draw.h"

namespace rannc::test {

using Generator = std::function<DrawnCall(RandomInput&, const std::string& op)>;

/// By short name: every operator that folds by a rule or whose type rule follows contents.
const std::map<std::string, Generator>& generators();

}  // namespace rannc::test
