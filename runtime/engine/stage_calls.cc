#include "runtime/engine/internal/stage_calls.h"

#include <c10/core/alignment.h>

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
  if (port.channels_last) return tensor.contiguous(at::MemoryFormat::ChannelsLast);
  return tensor.contiguous().view(tensor.sizes());  // axes of one element may have any stride
}

at::Tensor as_operand(const at::Tensor& tensor, const Port& port) {
  at::Tensor made = in_format(tensor, port);
  const bool aligned = reinterpret_cast<uintptr_t>(made.const_data_ptr()) % c10::gAlignment == 0;
  return aligned ? made : made.clone();
}

}  // namespace rannc::runtime
