// Every call of every operator's lowering: a registered operator whose arguments fit, printed as text that means the
// same operator, and run to the same numbers by the dispatcher.
#include "runtime/aten/aten_call.h"

#include <gtest/gtest.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/jit.h>

#include <set>

#include "tests/codegen/prepared_case.h"

namespace rannc::ir {
namespace {

using testing::OpCase;
using testing::Prepared;

/// `aten::add.Tensor` of every node that calls ATen, in order, inside branches and loops too.
std::vector<std::string> operators_of(const torch::jit::Block& block) {
  std::vector<std::string> found;
  for (const torch::jit::Node* node : block.nodes()) {
    for (const torch::jit::Block* inside : node->blocks()) {
      for (std::string& name : operators_of(*inside)) found.push_back(std::move(name));
    }
    const c10::FunctionSchema* schema = node->maybeSchema();
    if (schema == nullptr || node->outputs().empty()) continue;
    const auto& type = *node->output(0)->type();
    if (type.kind() != c10::TypeKind::TensorType && !type.isSubtypeOf(*c10::ListType::ofTensors())) continue;  // sizes
    const std::string name = schema->name();
    if (name.starts_with("aten::"))
      found.push_back(name + (schema->overload_name().empty() ? "" : "." + schema->overload_name()));
  }
  return found;
}
std::vector<std::string> operators_of(const std::string& source) {
  const auto unit = torch::jit::compile(source);
  return operators_of(*torch::jit::toGraphFunction(unit->get_function("f")).graph()->block());
}

/// What the text of control calls beside its blocks, which are lists of tensors, their elements, and the trip's number.
bool is_of_control(const std::string& name) {
  static const std::set<std::string> kNames = {"aten::unbind.int", "aten::stack", "aten::full", "aten::append.t",
                                               "aten::__getitem__.t"};
  return kNames.contains(name);
}

void schemas_of(const aten::Lowering& lowering, std::multiset<std::string>& found, bool& controls) {
  for (const aten::Call& call : lowering.calls) {
    for (const aten::Block& block : call.blocks) schemas_of(block.lowering(), found, controls);
    controls = controls || !call.blocks.empty();
    if (call.blocks.empty()) found.insert(call.schema);
  }
}

TEST(AtenCalls, AreRegisteredAndFit) {
  std::set<std::string> schemas;
  for (const OpCase& c : testing::op_cases()) {
    const Prepared made = testing::prepare(c, DType::kF64);
    for (const aten::Call& call : made.lowering.calls) {
      const Result<void> fits = runtime::check_call(call);
      EXPECT_TRUE(fits.ok()) << describe(c) << fits.diagnostic().str();
      schemas.insert(call.schema);
    }
  }
  EXPECT_GT(schemas.size(), 80U);
}

TEST(AtenCalls, EntriesStandForOperatorsThatThereAre) {
  for (const OpInfo& op : core_ops()) {
    for (const std::string_view name : op.aten) {
      EXPECT_FALSE(torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(std::string(name))).empty())
          << op.name << " stands for " << name;
    }
    EXPECT_TRUE(op.form || !op.aten.empty() || op.view == View::kSame || op.fit != nullptr) << op.name;
  }
}

TEST(AtenCalls, TheTextMeansTheSameOperators) {
  for (const OpCase& c : testing::op_cases()) {
    const Prepared made = testing::prepare(c, DType::kF64);
    std::multiset<std::string> said, parsed;
    bool controls = false;
    schemas_of(made.lowering, said, controls);
    for (const std::string& name : operators_of(made.source)) {
      if (!controls || !is_of_control(name)) parsed.insert(name);
    }
    EXPECT_EQ(parsed, said) << describe(c) << "\n" << made.source;
  }
}

// The interpreter's results if gradients are required: LibTorch then multiplies scattered rows in one call, as
// run_lowering always does.
std::vector<at::Tensor> executed_for_training(const Prepared& made, const std::vector<at::Tensor>& inputs,
                                              int64_t batch) {
  std::vector<at::Tensor> trained, results;
  for (const at::Tensor& input : inputs) {
    trained.push_back(input.is_floating_point() ? input.detach().requires_grad_() : input);
  }
  for (const at::Tensor& result : testing::execute(made, trained, batch)) results.push_back(result.detach());
  return results;
}

TEST(AtenCalls, RunByTheDispatcherAsByTheInterpreter) {
  at::manual_seed(4);
  for (const OpCase& c : testing::op_cases()) {
    SCOPED_TRACE(describe(c));
    const Prepared made = testing::prepare(c, DType::kF64);
    for (const int64_t batch : {2, 3}) {
      const std::vector<at::Tensor> inputs = testing::drawn(made, batch);
      const auto operands = testing::in_places(made, inputs);
      const Bindings sizes = {{"batch", batch}};
      const auto found = runtime::run_lowering(made.lowering, {.operands = operands, .sizes = sizes});
      ASSERT_TRUE(found.ok()) << found.diagnostic().str();
      const std::vector<at::Tensor> expected = testing::execute(made, inputs, batch);
      ASSERT_EQ(found->size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ((*found)[i].scalar_type(), expected[i].scalar_type());
        EXPECT_EQ((*found)[i].sizes(), expected[i].sizes());
        if (testing::is_workspace(c, i, made.types[i])) continue;  // its gaps are not initialized
        const at::Tensor one = (*found)[i].is_sparse() ? (*found)[i].to_dense() : (*found)[i];  // a gradient as rows
        if (at::equal(one, expected[i]) || expected[i].isnan().any().item<bool>()) continue;
        EXPECT_TRUE(at::equal(one, executed_for_training(made, inputs, batch)[i])) << made.source;
      }
    }
  }
}

}  // namespace
}  // namespace rannc::ir
