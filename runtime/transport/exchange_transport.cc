// Copies values of other devices to host memory and back.
#include "runtime/transport/internal/exchange_transport.h"

#include "runtime/internal/torch_value.h"
#include "runtime/transport/internal/gloo_group.h"

namespace rannc::runtime {

Result<Values> ExchangeTransport::all_reduce(const CollectiveKey&, std::span<const DeviceId> members, Values values) {
  if (auto reason = failure()) return *reason;
  if (members.size() < 2) return values;
  try {
    for (Value& value : values) {
      const bool on_host = to_tensor(value).is_cpu();
      RANNC_ASSIGN(at::Tensor sum, ordered_sum(members, device(), to_tensor(hardware().download(value)),
                                               [this] { return begin_exchange(); }));
      value = to_value(std::move(sum));
      if (!on_host) value = hardware().upload(value);
    }
    return values;
  } catch (const std::exception& failed) {
    return explained(error("a sum over devices failed: " + plain(failed)));
  }
}

}  // namespace rannc::runtime
