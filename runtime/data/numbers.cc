#include "runtime/data/numbers.h"

#include <ATen/ATen.h>

#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

std::vector<double> to_doubles(const Value& value) {
  const at::Tensor wide = to_tensor(value).detach().to(at::kDouble).contiguous();
  const auto* first = wide.const_data_ptr<double>();
  return {first, first + wide.numel()};
}

}  // namespace rannc::runtime
