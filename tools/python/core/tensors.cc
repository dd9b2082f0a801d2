#include "tools/python/core/tensors.h"

#include <ATen/DLConvertor.h>
#include <fmt/format.h>

#include "ir/base/diagnostic.h"
#include "runtime/engine/tensor.h"

namespace rannc::python {

namespace nb = nanobind;

namespace {
constexpr const char* kNew = "dltensor";
constexpr const char* kUsed = "used_dltensor";

void destroy(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kNew)) return;  // another owner took it
  auto* const tensor = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kNew));
  tensor->deleter(tensor);
}
}  // namespace

runtime::Value value_of(nb::handle capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule.ptr(), kNew)) throw Error(error(fmt::format("{}: is no new DLPack capsule", name)));
  at::Tensor tensor = at::fromDLPack(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kNew)));
  PyCapsule_SetName(capsule.ptr(), kUsed);
  return runtime::to_value(std::move(tensor));
}

nb::object capsule_of(const runtime::Value& value) {
  return nb::steal(PyCapsule_New(at::toDLPack(runtime::to_tensor(value)), kNew, destroy));
}

}  // namespace rannc::python
