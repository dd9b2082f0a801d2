#include "runtime/aten/internal/operator_tape.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>

namespace rannc::runtime {

namespace {

using torch::autograd::Edge;

void delete_tape(void* tape) { delete static_cast<OperatorTape*>(tape); }

/// Where the gradient of a leaf arrives; invalid if no result depends on it.
Edge edge_of(const at::Tensor& leaf) { return {torch::autograd::impl::try_get_grad_accumulator(leaf), 0}; }

}  // namespace

at::Tensor carry(OperatorTape tape, int64_t bytes) {
  auto owned = std::make_unique<OperatorTape>(std::move(tape));
  return at::for_blob(nullptr, {bytes})
      .context(owned.release(), delete_tape)
      .options(at::TensorOptions().dtype(at::kByte))
      .make_tensor();
}

Result<std::vector<at::Tensor>> run_tape(const at::Tensor& carrier, const std::vector<at::Tensor>& gradients) {
  const auto* tape = carrier.storage().data_ptr().cast_context<OperatorTape>(delete_tape);
  if (tape == nullptr || tape->results.size() != gradients.size())
    return error("its operand carries no tape of its forward task");
  std::vector<Edge> roots, ends;
  std::vector<at::Tensor> seeds;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined() || !tape->results[i].is_valid()) continue;
    roots.push_back(tape->results[i]);
    seeds.push_back(gradients[i]);
  }
  std::vector<size_t> reached;
  for (size_t i = 0; i < tape->leaves.size(); ++i) {
    Edge end = edge_of(tape->leaves[i]);
    if (!end.is_valid()) continue;
    ends.push_back(std::move(end));
    reached.push_back(i);
  }
  std::vector<at::Tensor> found(tape->leaves.size());
  if (!roots.empty() && !ends.empty()) {
    const bool keeps = carrier.use_count() > 1 || carrier.storage().use_count() > 1;
    auto& engine = torch::autograd::Engine::get_default_engine();
    auto made = engine.execute(roots, seeds, keeps, /*create_graph=*/false, /*accumulate_grad=*/false, ends);
    for (size_t i = 0; i < reached.size(); ++i) found[reached[i]] = std::move(made[i]);
  }
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined()) found[i] = at::zeros_like(tape->leaves[i]).detach();
  }
  return found;
}

}  // namespace rannc::runtime
