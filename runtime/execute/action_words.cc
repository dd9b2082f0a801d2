#include "runtime/execute/action_words.h"

namespace rannc::runtime {

std::string_view action_words(ir::ActionKind kind) {
  switch (kind) {
    case ir::ActionKind::kForward:
      return "forward";
    case ir::ActionKind::kBackward:
      return "backward";
    case ir::ActionKind::kInputGradient:
      return "input gradient";
    case ir::ActionKind::kWeightGradient:
      return "weight gradient";
    case ir::ActionKind::kRecompute:
      return "recompute";
    case ir::ActionKind::kSendActivation:
      return "send of an activation";
    case ir::ActionKind::kReceiveActivation:
      return "receive of an activation";
    case ir::ActionKind::kSendGradient:
      return "send of a gradient";
    case ir::ActionKind::kReceiveGradient:
      return "receive of a gradient";
    case ir::ActionKind::kAllReduce:
      return "all-reduce";
    case ir::ActionKind::kReduceShared:
      return "sum of a shared parameter's gradients";
    case ir::ActionKind::kStep:
      return "optimizer step";
    case ir::ActionKind::kReduceScatter:
      return "reduce-scatter";
    case ir::ActionKind::kUpdateShare:
      return "update of a share";
    case ir::ActionKind::kAllGather:
      return "all-gather";
  }
  return "action";
}

bool has_micro_batch(ir::ActionKind kind) { return ir::is_compute(kind) || ir::is_send(kind) || ir::is_receive(kind); }

}  // namespace rannc::runtime
