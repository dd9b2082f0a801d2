// What is folded ahead of a run is what the run computes: both of the ways that integers are folded, the folding rules
// and the contents that type rules follow, against the lowered statement, on random operands with empty axes and the
// lowest and highest numbers of their types.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ir/op/fold.h"
#include "runtime/aten/evaluate.h"
#include "tests/codegen/drawn_calls.h"
#include "tests/ir/op/op_cases.h"

namespace rannc {
namespace {

using ir::Attributes;
using ir::Dim;
using ir::DType;
using ir::Shape;
using test::DrawnCall;
using test::generators;
using test::Numbers;
using test::RandomInput;

ir::StoredTensor tensor(const test::DrawnOperand& operand) {
  return {{.dtype = operand.dtype, .shape = test::list(operand.shape)},
          ir::encode_integers(operand.dtype, operand.data)};
}

/// Elements of all results, one result after the other.
Numbers elements(const std::vector<ir::StoredTensor>& results) {
  Numbers all;
  for (const ir::StoredTensor& each : results) {
    const Numbers numbers = ir::decode_integers(each.type, each.data, 1 << 20).value();
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  return all;
}

/// One call with its operands stored, with or without known contents.
struct Prepared {
  explicit Prepared(const DrawnCall& drawn) : op(ir::core(drawn.op)), call(drawn) {
    for (const test::DrawnOperand& operand : call.operands) stored.push_back(tensor(operand));
    for (const ir::StoredTensor& each : stored) operands.push_back(&each);
  }
  Result<std::vector<ir::ValueType>> types(bool with_contents) const {
    std::vector<ir::ValueType> inputs;
    std::vector<const ir::ValueType*> pointers;
    for (const ir::StoredTensor& each : stored) {
      inputs.push_back(each.type);
      if (with_contents) inputs.back().contents = ir::constant_contents(each.type, each.data);
    }
    for (const ir::ValueType& type : inputs) pointers.push_back(&type);
    const size_t outputs = std::max<size_t>(call.parts.size(), 1);
    return ir::types_of({op, pointers, call.attributes, "", static_cast<uint32_t>(outputs)});
  }
  std::optional<std::vector<ir::StoredTensor>> folded(const std::vector<ir::ValueType>& types) const {
    return ir::fold_integers(op, operands, call.attributes, types);
  }
  Result<Numbers> computed() const {
    if (!call.parts.empty()) return computed_in_parts();
    RANNC_ASSIGN(const std::vector<ir::StoredTensor> results, runtime::evaluate(op, operands, call.attributes));
    return elements(results);
  }
  Result<Numbers> computed_in_parts() const {
    Numbers all;
    for (const DrawnCall& part : call.parts) {
      RANNC_ASSIGN(const Numbers numbers, Prepared(part).computed());
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
    return all;
  }

  const ir::OpInfo& op;
  const DrawnCall& call;
  std::vector<ir::StoredTensor> stored;
  std::vector<const ir::StoredTensor*> operands;
};

class Folding : public testing::TestWithParam<std::string> {};

constexpr int kRounds = 60;

TEST_P(Folding, EqualsTheRun) {
  const std::string op = GetParam();
  RandomInput draw(std::hash<std::string>()(op), 3);
  int folded = 0, typed = 0;
  for (int round = 0; round < kRounds; ++round) {
    const DrawnCall call = generators().at(op)(draw, op);
    SCOPED_TRACE(call.str());
    const Prepared prepared(call);
    const auto types = prepared.types(false);
    if (!types.ok()) continue;
    ++typed;
    const auto found = prepared.folded(*types);
    if (!found) continue;
    ++folded;
    const auto expected = prepared.computed();
    ASSERT_TRUE(expected.ok()) << expected.diagnostic().str();
    EXPECT_EQ(elements(*found), *expected);
    ASSERT_EQ(found->size(), types->size());
    for (size_t i = 0; i < types->size(); ++i) EXPECT_EQ((*found)[i].type, (*types)[i]);
  }
  if (ir::core(op).fold == nullptr) return;  // folds by contents alone
  EXPECT_GT(typed, kRounds / 2);
  EXPECT_GT(folded, typed / 3);
}

/// Of all results, one after the other; nothing where those of one are not known.
std::optional<ir::Contents> all_contents(const std::vector<ir::ValueType>& types) {
  ir::Contents all;
  for (const ir::ValueType& type : types) {
    if (!type.contents) return std::nullopt;
    all.insert(all.end(), type.contents->begin(), type.contents->end());
  }
  return all;
}

TEST_P(Folding, OfContentsEqualsTheRun) {
  const std::string op = GetParam();
  RandomInput draw(std::hash<std::string>()(op) + 1, 1);
  int known = 0;
  for (int round = 0; round < kRounds; ++round) {
    const DrawnCall call = generators().at(op)(draw, op);
    SCOPED_TRACE(call.str());
    const Prepared prepared(call);
    const auto types = prepared.types(true);
    if (!types.ok()) continue;
    const auto contents = all_contents(*types);
    if (!contents) continue;
    ++known;
    const auto expected = prepared.computed();
    ASSERT_TRUE(expected.ok()) << expected.diagnostic().str();
    EXPECT_EQ(ir::str(*contents), ir::str(test::list(*expected)));
  }
  // Their type rules follow no contents.
  const std::set<std::string> without = {
      "argmax",    "bitwise_and", "bitwise_not", "bitwise_or",       "bitwise_xor", "clamp", "gather_elements",
      "gather_nd", "one_hot",     "pad",         "scatter_elements", "scatter_nd",  "tile",  "trilu"};
  EXPECT_EQ(known > 0, !without.contains(op));
}

std::vector<std::string> covered() {
  std::vector<std::string> names;
  for (const auto& [name, generator] : generators()) names.push_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Operators, Folding, testing::ValuesIn(covered()), [](const auto& info) { return info.param; });

// --- every operator that folds has a generator

TEST(FoldingOperators, ThatHaveARuleAreDrawn) {
  int folding = 0;
  for (const ir::OpInfo& op : ir::core_ops()) {
    if (op.fold == nullptr) continue;
    ++folding;
    const std::string name = op.name.substr(std::string("core.").size());
    EXPECT_TRUE(generators().contains(name)) << name << " folds, but nothing draws calls of it";
  }
  EXPECT_GE(folding, 47);
}

/// Whether the type rule follows contents in a call of these operands, each of one element type, a few ones long.
bool follows(const ir::testing::OpCase& c, const Attributes& attributes, const std::vector<DType>& dtypes,
             const Shape& shape) {
  std::vector<ir::ValueType> types;
  std::vector<const ir::ValueType*> inputs;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    ir::ValueType& type = types.emplace_back();
    type.dtype = dtypes[std::min(i, dtypes.size() - 1)];
    type.shape = shape;
    type.contents = ir::Contents(static_cast<size_t>(ir::element_count(shape).constant()), Dim(1));
  }
  for (size_t i = 0; i < types.size(); ++i) inputs.push_back(c.operands[i].absent ? nullptr : &types[i]);
  const ir::OpInfo& op = ir::core(c.op);
  const auto found = ir::types_of({op, inputs, attributes, "", c.outputs});
  return found.ok() && all_contents(*found).has_value();
}

TEST(FoldingOperators, ThatFollowContentsAreDrawn) {
  std::set<std::string> following;
  for (const ir::testing::OpCase& given : ir::testing::op_cases()) {
    const ir::testing::OpCase c = ir::testing::with_batch(given, 2);
    for (const Attributes& attributes : {c.attributes, Attributes{}}) {
      for (const std::vector<DType>& dtypes :
           {std::vector{DType::kI64}, std::vector{DType::kBool}, std::vector{DType::kBool, DType::kI64}}) {
        for (const Shape& shape : {Shape{}, Shape{1}, Shape{2}}) {
          if (follows(c, attributes, dtypes, shape)) following.insert(c.op);
        }
      }
    }
  }
  for (const char* op : {"add", "cast", "concat", "div", "gather", "pow", "range", "shape", "slice", "sum", "where"}) {
    EXPECT_TRUE(following.contains(op)) << op;
  }
  for (const std::string& op : following) {
    EXPECT_TRUE(generators().contains(op)) << op << " follows contents, but nothing draws calls of it";
  }
}

}  // namespace
}  // namespace rannc
