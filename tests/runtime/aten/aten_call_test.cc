// Every call of every operator's lowering is a registered operator whose arguments fit.
#include "runtime/aten/aten_call.h"

#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <set>

#include "tests/codegen/prepared_case.h"

namespace rannc::ir {
namespace {

using testing::OpCase;
using testing::Prepared;

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

}  // namespace
}  // namespace rannc::ir
