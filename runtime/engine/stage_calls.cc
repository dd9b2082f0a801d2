#include "runtime/engine/internal/stage_calls.h"

namespace rannc::runtime {

Result<ir::Bindings> bindings_of(const Signature& signature, const At& at) {
  ir::Bindings bound = *at.symbols;
  if (!signature.batch_symbol.empty()) bound[signature.batch_symbol] = static_cast<int64_t>(at.samples);
  for (const std::string& symbol : signature.symbols) {
    if (!bound.contains(symbol)) return error({.node = symbol}, "size `" + symbol + "` has no value in this step");
  }
  return bound;
}

at::Tensor without_buffer(at::Tensor output) {
  if (output.dim() > 0 || output.storage().nbytes() <= output.nbytes()) return output;
  return output.clone();
}

at::Tensor in_format(const at::Tensor& tensor, const Port& port) {
  return port.channels_last ? tensor.contiguous(at::MemoryFormat::ChannelsLast) : tensor;
}

at::Tensor in_one_piece(const at::Tensor& tensor, const Port& port) {
  return port.channels_last ? in_format(tensor, port) : tensor.contiguous();
}

}  // namespace rannc::runtime
