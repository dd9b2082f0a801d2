// Reads tensors from weights files.
#include "runtime/engine/internal/torch_weights.h"

#include <cstring>

#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

Result<at::Tensor> read_tensor(const SafetensorsFile& file, const SafetensorsFile::Entry& entry) {
  RANNC_ASSIGN(const std::vector<std::byte> bytes, file.data(entry).read());
  at::Tensor tensor = at::empty(entry.spec.shape, scalar_type(entry.spec.dtype));
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

Result<at::Tensor> read_weight(const SafetensorsFile& file, const Weight& weight, Device& device) {
  const SafetensorsFile::Entry* entry = file.find(weight.name);
  RANNC_CHECK(entry != nullptr) << "an open bundle has every weight";
  RANNC_ASSIGN(at::Tensor tensor, read_tensor(file, *entry));
  return to_tensor(device.upload(to_value(std::move(tensor))));
}

}  // namespace rannc::runtime
