/// Ways to write what a fusion knows.
#pragma once

#include <string>
#include <vector>

#include "tests/passes/torch/fused_case.h"

namespace rannc::test {

using Names = std::vector<std::string>;

/// Both give the same numbers, gradients included, but for rounding in float64.
void expect_same(const ir::Graph& found, const ir::Graph& expected);
/// The passes make a graph of these operators that is the same function; done again they change nothing.
void expect_becomes(const std::string& text, const Names& passes, const Names& expected);
/// The pass leaves every operator, and all passes the function.
void expect_stays(const std::string& text, const std::string& pass);

/// Every way to write one of each.
Names products(const std::vector<Names>& parts);
/// `NAME = OP(a, b)` and the same turned.
Names turned(const std::string& name, const std::string& op, const std::string& a, const std::string& b);
Names joined(Names a, const Names& b);

}  // namespace rannc::test
