// Calls of losses, and of operators that say which gradients are none.
#include "tests/ir/op/op_cases.h"

namespace rannc::ir::testing {
namespace {

void add_cross_entropies(std::vector<OpCase>& cases) {
  const Attributes smooth = {{"ignore_index", Dim(2)}, {"label_smoothing", 0.25}};
  const Attributes middle = {{"axis", Dim(1)}, {"ignore_index", Dim(2)}};
  const Attributes both = {{"axis", Dim(1)}, {"ignore_index", Dim(2)}, {"label_smoothing", 0.125}};
  for (const uint32_t outputs : {1U, 2U}) {
    const std::vector<OpCase> more = {
        {"cross_entropy_sum", {f("batch,5"), i("batch", 0, 5), f("5")}, {}, outputs},
        {"cross_entropy_sum", {f("batch,5,3"), i("batch,3", 0, 5), f("5")}, middle, outputs},
        {"cross_entropy_sum", {f("batch,5"), i("batch", 0, 5)}, smooth, outputs},
        {"cross_entropy_sum", {f("batch,5,3"), i("batch,3", 0, 5), f("5")}, both, outputs},
        {"cross_entropy_sum", {f("batch,5"), i("batch", 0, 5), f("5")}, {{"label_smoothing", 1.0}}, outputs},
    };
    cases.insert(cases.end(), more.begin(), more.end());
  }
  const std::vector<OpCase> backward = {
      {"cross_entropy_sum_grad_logits", {f(""), f("batch,5"), i("batch", 0, 5), f("5")}},
      {"cross_entropy_sum_grad_logits", {f(""), f("batch,3,5"), i("batch,3", 0, 5), f("5")}, both},
      {"cross_entropy_sum_grad_logits", {f(""), f("batch,5"), i("batch", 0, 5)}, smooth},
  };
  cases.insert(cases.end(), backward.begin(), backward.end());
}

// Whole numbers lie on kinks.
void add_pairs(std::vector<OpCase>& cases) {
  const std::vector<OpCase> more = {
      {"bce_with_logits_sum", {f("batch,5"), f("batch,5")}},
      {"bce_with_logits_sum", {f("batch"), f("batch")}},
      {"bce_with_logits_sum", {f("batch,3,5"), f("batch,3,5"), f("5")}},
      {"bce_with_logits_sum", {f("batch,3,5"), f("batch,3,5"), f("")}},
      {"bce_with_logits_sum", {f("batch,3,5"), f("batch,3,5"), f("3,1")}},
      {"bce_with_logits_sum", {whole("batch,5", -60, 60), whole("batch,5", 0, 2), f("5")}},
      {"bce_with_logits_sum", {f("4"), f("4")}},
      {"huber_sum", {f("batch,5"), f("batch,5")}, {{"delta", 0.7}}},
      {"huber_sum", {f("batch,5,2"), f("batch,5,2")}, {{"delta", 0.3}}},
      {"huber_sum", {f("4"), f("4")}, {{"delta", 1.3}}},
      {"huber_sum_grad_prediction", {f(""), f("batch,5"), f("batch,5")}},
      {"huber_sum_grad_prediction", {f(""), whole("batch,5", -2, 3), whole("batch,5", -2, 3)}, {{"delta", 1.0}}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_lost_gradients(std::vector<OpCase>& cases) {
  const Attributes relu6 = {{"min", 0.0}, {"max", 6.0}, {"strict", true}};
  const std::vector<OpCase> more = {
      {"gather", {f("9,4"), i("batch,3", 0, 9)}, {{"axis", Dim(0)}, {"padding_index", Dim(2)}}},
      {"gather", {f("3,4"), i("batch", 0, 3)}, {{"axis", Dim(0)}, {"padding_index", Dim(0)}}},
      {"gather_grad_input",
       {f("batch,3,4"), i("batch,3", 0, 3)},
       {{"axis", Dim(0)}, {"padding_index", Dim(1)}, {"sizes", dims("3,4")}}},
      {"stop_gradient", {f("batch,5")}},
      {"stop_gradient", {f("")}},
      {"clamp", {whole("batch,7", -1, 8)}, relu6},
      {"clamp", {f("batch,7")}, {{"min", Dim(-1)}, {"max", Dim(0)}, {"strict", true}}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

}  // namespace

bool has_derivative(const OpInfo& op, size_t operand) {
  const OperandInfo& info = op.operand(operand);
  const bool weighs_losses = op.family == "loss" && info.role == Role::kData && info.presence == Presence::kOptional;
  return info.role != Role::kStatistics && !weighs_losses;
}

void add_loss_cases(std::vector<OpCase>& cases) {
  add_cross_entropies(cases);
  add_pairs(cases);
  add_lost_gradients(cases);
}

}  // namespace rannc::ir::testing
