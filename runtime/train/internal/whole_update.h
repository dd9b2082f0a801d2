/// Updates of tensors as a whole: Muon and Adafactor.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ir/plan/optimizer.h"

namespace rannc::runtime {

/// Updates a tensor of the program, whose rows are the rows of `parts`, views of stored memory, in place. `gradient`
/// has the tensor's shape and is not changed, unless `may_overwrite`. `states`: those of `ir::whole_states`. They have
/// the parts' type, which may be narrower than the gradient's. `updates` updates came before.
struct WholeTensor {
  std::vector<at::Tensor> parts;
  at::Tensor gradient;
  bool may_overwrite = false;
  std::vector<at::Tensor> states;
};

/// As `torch.optim.Muon` and `torch.optim.Adafactor`, operation by operation. `rate`: the learning rate of this update.
void update_whole(const ir::UpdateRule& rule, double rate, uint64_t updates, WholeTensor tensor);

}  // namespace rannc::runtime
