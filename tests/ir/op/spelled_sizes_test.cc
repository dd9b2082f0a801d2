// Every operator, forward and backward, with one extent that is computed where the others of its size are numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/gradient/gradient.h"
#include "ir/gradient/vjp.h"
#include "ir/graph/assumptions.h"
#include "ir/verify.h"
#include "tests/ir/op/op_cases.h"

namespace rannc::ir {
namespace {

using testing::op_cases;
using testing::OpCase;
using testing::Operand;

const Bindings kBatch = {{"batch", 3}};

/// A call one extent of which is `floor(s/2)` instead of a number, and the bindings for which it is the number.
struct Spelled {
  OpCase call;
  std::string what;
  Bindings sizes;
};

// Weights have static shapes, and lists of sizes no free length.
bool may_be_free(const OpInfo& op, size_t operand, const Operand& given) {
  const Role role = op.operand(operand).role;
  return !given.absent && !given.type.contents && role != Role::kWeight && role != Role::kSize;
}

std::vector<Spelled> spellings() {
  std::vector<Spelled> all;
  for (const OpCase& c : op_cases()) {
    for (size_t k = 0; k < c.operands.size(); ++k) {
      if (!may_be_free(core(c.op), k, c.operands[k])) continue;
      const Shape& shape = *c.operands[k].type.shape;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const bool one = shape[axis] == Dim(1) && !c.attributes.has("axes");  // it would be stretched
        if (!shape[axis].is_constant() || shape[axis] == Dim(0) || one) continue;
        Spelled made{c, describe(c) + " operand " + std::to_string(k) + " axis " + std::to_string(axis), kBatch};
        (*made.call.operands[k].type.shape)[axis] = floor_div(Dim::symbol("s"), 2);
        made.sizes["s"] = 2 * shape[axis].constant();
        all.push_back(std::move(made));
      }
    }
  }
  return all;
}

struct Built {
  Graph graph;
  TaskId task;
  std::vector<bool> wanted;
  Result<void> typed = Result<void>();
};

Built built(const OpCase& c, bool with_auxiliary = true) {
  Built made;
  made.graph.set_batch_symbol("batch");
  std::vector<ValueId> operands;
  for (size_t k = 0; k < c.operands.size(); ++k) {
    const Operand& operand = c.operands[k];
    operands.push_back(operand.absent ? ValueId() : made.graph.add_value(ValueKind::kInput, "x", operand.type));
    if (!operand.absent) made.graph.add_input(operands.back());
    made.wanted.push_back(!operand.absent && is_float(operand.type.dtype) && testing::has_derivative(core(c.op), k));
  }
  ValueType sizes;  // an input that binds the symbol
  sizes.shape = Shape{Dim::symbol("s")};
  made.graph.add_input(made.graph.add_value(ValueKind::kInput, "sizes", sizes));
  uint32_t results = c.outputs;
  if (with_auxiliary && core(c.op).gradient_takes_auxiliary != nullptr)
    results = static_cast<uint32_t>(core(c.op).results.size());
  made.task = made.graph.add_task(core(c.op), operands, c.attributes, std::vector<std::string>(results));
  made.typed = infer_types(made.graph, made.task);
  return made.typed.ok() || !with_auxiliary ? std::move(made) : built(c, false);  // some results are of one type only
}

Shape evaluated(const Shape& shape, const Bindings& sizes) {
  Shape numbers;
  for (const Dim& dim : shape) numbers.emplace_back(dim.evaluate(sizes).value());
  return numbers;
}

// Adds the gradients of all floats through all floats. Gradients that do not fit their operands fail a check.
void differentiate(Built& made) {
  std::vector<ValueId> seeds;
  const auto outputs = made.graph.outputs(made.task);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueType type = made.graph.type(outputs[i]);
    const bool flows = is_float(type.dtype) && i < std::max<size_t>(made.graph.op(made.task).min_results(), 1);
    seeds.push_back(flows ? made.graph.add_value(ValueKind::kInput, "g", type) : ValueId());
    if (flows) made.graph.add_input(seeds.back());
  }
  const auto is_valid = [](ValueId seed) { return seed.valid(); };
  if (std::none_of(seeds.begin(), seeds.end(), is_valid)) return;
  if (std::find(made.wanted.begin(), made.wanted.end(), true) == made.wanted.end()) return;
  GradientCall call(made.graph, made.task, seeds, made.wanted);
  const OpInfo& op = made.graph.op(made.task);
  if (op.gradient == nullptr || !op.gradient(call)) add_vjp(call);
}

// Whether the extent says how many axes there are or which kernel runs, or must divide by a number for every sample.
bool is_structure(const std::string& refusal) {
  const char* const reasons[] = {"need a last axis of known extent", "channels do not divide into",
                                 "groups of equal size", "do not divide by", "has no log_sums"};
  const auto given = [&](const char* reason) { return refusal.find(reason) != std::string::npos; };
  return std::any_of(std::begin(reasons), std::end(reasons), given);
}

// The types are those of the numbers for the sizes at which the extent is the number, and the graph is valid.
TEST(SpelledSizes, OfAnyOperandAreTakenByEveryOperator) {
  std::vector<std::string> refused;
  size_t conditions = 0;
  for (const Spelled& each : spellings()) {
    SCOPED_TRACE(each.what);
    Built made = built(each.call);
    if (!made.typed.ok()) {
      if (is_structure(made.typed.diagnostic().message)) continue;
      refused.push_back(each.what + ": " + made.typed.diagnostic().message);
      continue;
    }
    conditions += made.graph.assumptions().size();
    EXPECT_TRUE(check_assumptions(made.graph, each.sizes).ok());
    OpCase plain = each.call;
    for (Operand& operand : plain.operands) {
      if (operand.absent) continue;
      for (Dim& dim : *operand.type.shape) dim = dim.substitute("s", each.sizes.at("s"));
    }
    const Built numbers = built(testing::fitted(plain));
    ASSERT_TRUE(numbers.typed.ok());
    for (size_t i = 0; i < made.graph.outputs(made.task).size(); ++i) {
      const ValueType &found = made.graph.type(made.graph.outputs(made.task)[i]),
                      &expected = numbers.graph.type(numbers.graph.outputs(numbers.task)[i]);
      EXPECT_EQ(str(evaluated(*found.shape, each.sizes)), str(evaluated(*expected.shape, each.sizes)));
    }
    if (testing::is_of_backward_pass(each.call)) continue;
    ASSERT_NO_THROW(differentiate(made));
    const std::vector<Diagnostic> wrong = verify(made.graph);
    EXPECT_TRUE(wrong.empty()) << wrong[0].str();
  }
  EXPECT_GT(conditions, 50U);
  EXPECT_THAT(refused, ::testing::IsEmpty());
}

}  // namespace
}  // namespace rannc::ir
