/// Translates operators of PyTorch's decompositions to operators with other names and fewer results.
#include <fmt/format.h>

#include "frontend/torchscript/internal/translators.h"

namespace rannc::frontend::torchscript {

namespace {

/// Translates the call like `operation`, which has the same argument names. The `further` results serve backward passes
/// only. A read of one is an error.
void as(Call& call, std::string_view operation, size_t further) {
  const std::string own = call.schema();
  call.become(fmt::format("aten::{}", operation));
  translate(call);
  for (size_t i = 0; i < further && call.good(); ++i)
    call.give(Item(Undecided{fmt::format("an additional result of {}", own)}));
}

void native_layer_norm(Call& call) { as(call, "layer_norm", 2); }
void fused_rms_norm(Call& call) { as(call, "rms_norm", 1); }
void native_group_norm(Call& call) { as(call, "group_norm", 2); }
/// Additional results are batch statistics and, of the functional variant, updated running statistics. The task of the
/// normalization maintains the latter.
void native_batch_norm(Call& call) { as(call, "batch_norm", 2); }
void functional_batch_norm(Call& call) { as(call, "batch_norm", 4); }
void native_dropout(Call& call) { as(call, "dropout", 1); }
void attention_for_cpu(Call& call) { as(call, "scaled_dot_product_attention", 1); }
void nll_loss_forward(Call& call) { as(call, "nll_loss", 1); }
void multilabel_margin_forward(Call& call) { as(call, "multilabel_margin_loss", 1); }
void adaptive_pool(Call& call) { as(call, call.op().substr(1), 0); }
void to_copy(Call& call) { as(call, "to.dtype_layout", 0); }
void unsafe_index(Call& call) { as(call, "index", 0); }

/// Writes to a view of a copy.
void scatter_into(Call& call) {
  const ValueId self = call.tensor("self"), source = call.tensor("src");
  if (!call.good()) return;
  const auto whole = std::make_shared<Tensor>(self);
  std::vector<Call::Argument> arguments = call.arguments();
  for (Call::Argument& each : arguments) {
    if (each.name == "self") each.item = Item(whole);
  }
  const std::string op = call.op();
  Call view = call.another("aten::" + op.substr(0, op.find('_')), std::move(arguments));
  translate(view);
  if (view.failure()) return call.fail(*view.failure());
  (*view.results()[0].get<TensorRef>())->write(call, call.cast(source, call.dtype(self)));
  if (call.good()) call.give(Item(whole));
}

}  // namespace

std::span<const Translator> decomposed_translators() {
  static constexpr Translator kTable[] = {
      {"native_layer_norm", native_layer_norm},
      {"_fused_rms_norm", fused_rms_norm},
      {"native_group_norm", native_group_norm},
      {"native_batch_norm", native_batch_norm},
      {"_native_batch_norm_legit", native_batch_norm},
      {"_native_batch_norm_legit_no_training", native_batch_norm},
      {"_native_batch_norm_legit_functional", functional_batch_norm},
      {"native_dropout", native_dropout},
      {"_scaled_dot_product_flash_attention_for_cpu", attention_for_cpu},
      {"nll_loss_forward", nll_loss_forward},
      {"nll_loss2d_forward", nll_loss_forward},
      {"multilabel_margin_loss_forward", multilabel_margin_forward},
      {"_adaptive_avg_pool2d", adaptive_pool},
      {"_adaptive_avg_pool3d", adaptive_pool},
      {"_to_copy", to_copy},
      {"_unsafe_index", unsafe_index},
      {"slice_scatter", scatter_into},
      {"select_scatter", scatter_into},
  };
  return kTable;
}

}  // namespace rannc::frontend::torchscript
