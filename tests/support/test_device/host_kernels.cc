// Runs operators on a test device by the kernels of the CPU.
#include "tests/support/test_device/host_kernels.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "tests/support/test_device/recording.h"
#include "tests/support/test_device/tensor_bytes.h"
#include "tests/support/test_device/thread_state.h"

namespace rannc::testing {
namespace {

/// Operators that accept tensors of the host beside those of a device.
bool mixes_devices(std::string_view op) {
  return op.starts_with("aten::index") || op.starts_with("aten::_index_put") || op.starts_with("aten::_fused_") ||
         op == "aten::_pack_padded_sequence" || op == "aten::set_";
}

/// Operators whose results' sizes depend on data, hence the host waits for them.
bool has_results_of_unknown_size(std::string_view op) {
  return op == "aten::nonzero" || op == "aten::masked_select" || op.starts_with("aten::_unique") ||
         op.starts_with("aten::unique");
}

/// One call: its arguments as twins of the host, and the memory they touch.
class HostCall {
 public:
  HostCall(const c10::OperatorHandle& op, torch::jit::Stack* stack) : op_(op), stack_(stack) {}

  void run() {
    const auto& arguments = op_.schema().arguments();
    const size_t first = stack_->size() - arguments.size();
    const torch::jit::Stack given(stack_->begin() + static_cast<std::ptrdiff_t>(first), stack_->end());
    for (size_t i = 0; i < arguments.size(); ++i) {
      how_ = how(arguments[i]);
      (*stack_)[first + i] = replaced(given[i]);
    }
    const c10::Device device = checked_device();
    const c10::DeviceGuard guard(device);
    const c10::Stream stream = current_stream(device.index());
    Streams& streams = Streams::instance();
    const char* name = op_.operator_name().name.c_str();
    streams.begin(stream, name, touches_);
    Recording* recording = streams.recording(stream);
    if (recording != nullptr) {
      TORCH_CHECK(!sparse_, name, ": a recording cannot hold sparse tensors");
      TORCH_CHECK(!by_mask_ && !has_results_of_unknown_size(name), name, ": a recording cannot wait for a size");
      recording->save(written_);
    }
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      op_.redispatchBoxed(c10::DispatchKeySet(sparse_ ? c10::DispatchKey::SparseCPU : c10::DispatchKey::CPU), stack_);
    }
    std::vector<Touch> fresh;
    twins_.resize_originals(device, fresh);
    for (size_t i = 0; i < op_.schema().returns().size(); ++i) {
      c10::IValue& result = stack_->at(first + i);
      result = handed_over(result, device, fresh);
      // The host has the number, hence it waited.
      if (!result.isTensor() && !result.isTensorList() && !result.isNone()) streams.host_wait(stream);
    }
    if (!fresh.empty()) streams.begin(stream, name, fresh);
    if (recording != nullptr) {
      const torch::jit::Stack results(stack_->begin() + static_cast<std::ptrdiff_t>(first), stack_->end());
      recording->add([op = op_, given, results] { run_again(op, given, results); });
    }
  }

 private:
  enum class How : uint8_t { kRead, kWrite, kView };

  static How how(const c10::Argument& argument) {
    const c10::AliasInfo* alias = argument.alias_info();
    return alias == nullptr ? How::kRead : alias->isWrite() ? How::kWrite : How::kView;
  }

  at::Tensor twin(const at::Tensor& tensor) {
    if (!on_test_device(tensor)) {
      if (tensor.defined() && tensor.dim() > 0) host_argument_ = true;
      return tensor;
    }
    if (!device_) device_ = tensor.device();
    one_device_ = one_device_ && *device_ == tensor.device();
    sparse_ = sparse_ || tensor.is_sparse();
    for (const at::Tensor& part : dense_parts(tensor)) {
      if (how_ != How::kView) touches_.push_back(touch_of(part, how_ == How::kWrite));
      if (how_ == How::kWrite) written_.push_back(part);
    }
    return twins_.twin(tensor);
  }

  c10::IValue replaced(const c10::IValue& value) {
    if (value.isTensor()) return twin(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(twin(tensor));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        by_mask_ = by_mask_ || (tensor && tensor->defined() && at::isIntegralType(tensor->scalar_type(), true) &&
                                tensor->element_size() == 1);
        list.push_back(tensor ? std::optional(twin(*tensor)) : std::nullopt);
      }
      return list;
    }
    if (value.isDevice() && value.toDevice().type() == c10::kPrivateUse1) {
      const c10::Device named = value.toDevice();
      if (!device_) device_ = named.has_index() ? named : c10::Device(c10::kPrivateUse1, current_device());
      return c10::Device(c10::kCPU);
    }
    return value;
  }

  c10::Device checked_device() const {
    const std::string& name = op_.operator_name().name;
    const bool one = one_device_ && (!host_argument_ || mixes_devices(name));
    TORCH_CHECK(one, name, ": expected all tensors to be on one device");
    return device_.value_or(c10::Device(c10::kPrivateUse1, current_device()));
  }

  at::Tensor handed_over(const at::Tensor& result, c10::Device device, std::vector<Touch>& fresh) const {
    return result.defined() && result.device().is_cpu() ? twins_.original(result, device, fresh) : result;
  }

  c10::IValue handed_over(const c10::IValue& result, c10::Device device, std::vector<Touch>& fresh) const {
    if (result.isTensor()) return handed_over(result.toTensor(), device, fresh);
    if (!result.isTensorList()) return result;
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : result.toTensorVector()) list.push_back(handed_over(tensor, device, fresh));
    return list;
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack* stack_;
  HostTwins twins_;
  How how_ = How::kRead;  ///< the access to the argument being replaced
  std::vector<Touch> touches_;
  std::vector<at::Tensor> written_;
  std::optional<c10::Device> device_;
  bool one_device_ = true, host_argument_ = false, sparse_ = false;
  bool by_mask_ = false;  ///< an index is a mask, whose true elements are counted
};

std::vector<at::Tensor> tensors_of(const torch::jit::Stack& values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : values) {
    if (value.isTensor()) tensors.push_back(value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
    }
  }
  return tensors;
}

}  // namespace

void run_by_host_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) { HostCall(op, stack).run(); }

void run_again(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, const torch::jit::Stack& results) {
  torch::jit::Stack stack = arguments;
  HostCall(op, &stack).run();
  const std::vector<at::Tensor> given = tensors_of(arguments), to = tensors_of(results), from = tensors_of(stack);
  for (size_t i = 0; i < to.size(); ++i) {
    if (!on_test_device(to[i]) || from[i].is_alias_of(to[i])) continue;
    HostTwins twins;
    Streams::instance().begin(current_stream(to[i].device().index()), op.operator_name().name.c_str(),
                              {touch_of(from[i], false), touch_of(to[i], true)});
    copy_on_host(twins.twin(to[i]), twins.twin(from[i]));
  }
}

}  // namespace rannc::testing
