// The mixed-precision classes of core operators are those of LibTorch's tables.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "ir/op/op.h"

namespace rannc::ir {
namespace {

#define RANNC_NAME(name, ...) #name,
const std::set<std::string> kSixteenBit = {AT_FORALL_LOWER_PRECISION_FP(RANNC_NAME)};
const std::set<std::string> kFloat32 = {AT_FORALL_FP32(RANNC_NAME) AT_FORALL_FP32_SET_OPT_DTYPE(RANNC_NAME)};
#undef RANNC_NAME

/// Operators of another class than LibTorch's tables say.
const std::map<std::string, std::string> kOthers = {
    {"core.batch_norm", "LibTorch converts its numbers inside of the kernel"},
    {"core.cross_entropy_sum", "LibTorch's is a log_softmax and an nll_loss, which are in float32"},
    {"core.dequantize", "a scale must not be rounded"},
    {"core.det", "LibTorch has no kernel of 16 bits"},
    {"core.fake_quantize", "a scale must not be rounded"},
    {"core.gru", "states are added up over all steps"},
    {"core.if", "types of bodies stay"},
    {"core.loop", "types of bodies stay"},
    {"core.lstm", "states are added up over all steps"},
    {"core.quantize", "a scale must not be rounded"},
    {"core.rms_norm", "LibTorch converts its numbers inside of the kernel"},
    {"core.rnn", "states are added up over all steps"},
};

/// Names of the LibTorch operators that an entry lists, without overloads.
std::set<std::string> aten_names(const OpInfo& op) {
  std::set<std::string> names;
  if (op.form) names.insert(op.form->schema);
  names.insert(op.aten.begin(), op.aten.end());
  std::set<std::string> plain;
  for (std::string name : names) {
    name = name.substr(name.find(':') + 2);
    plain.insert(name.substr(0, name.find('.')));
  }
  return plain;
}

Autocast in_tables(const OpInfo& op) {
  Autocast found = Autocast::kWidest;
  for (const std::string& name : aten_names(op)) {
    if (kSixteenBit.contains(name)) found = Autocast::kSixteenBit;
    if (kFloat32.contains(name)) found = Autocast::kFloat32;
  }
  return found;
}

TEST(Autocast, ClassesAreThoseOfLibTorch) {
  std::set<std::string> others;
  for (const OpInfo& op : core_ops()) {
    if (op.family.starts_with("grad_")) continue;
    if (op.autocast == in_tables(op)) continue;
    others.insert(op.name);
    EXPECT_TRUE(kOthers.contains(op.name)) << op.name << " is of class " << static_cast<int>(op.autocast)
                                           << ", in LibTorch's tables of class " << static_cast<int>(in_tables(op));
  }
  for (const auto& [name, why] : kOthers) EXPECT_TRUE(others.contains(name)) << name << " is as in LibTorch's tables";
}

// What a pass makes of a backward pass has the types of the tasks that it differentiates.
TEST(Autocast, BackwardOperatorsHaveNoClass) {
  size_t seen = 0;
  for (const OpInfo& op : core_ops()) {
    if (!op.family.starts_with("grad_")) continue;
    ++seen;
    EXPECT_EQ(op.autocast, Autocast::kWidest) << op.name;
  }
  EXPECT_GT(seen, 20U);
}

}  // namespace
}  // namespace rannc::ir
