#include "ir/plan/link_bytes.h"

#include "ir/schedule/dependencies.h"

namespace rannc::ir {

std::map<Link, uint64_t> link_bytes(const Plan& plan) {
  const PipelineShape shape = pipeline_shape(plan);
  const Dependencies dependencies(shape);
  std::map<Link, uint64_t> bytes;
  for (size_t row = 0; row < plan.schedule.rows.size(); ++row) {
    const DeviceId device = DeviceId::from(row);
    for (const Action& action : plan.schedule.rows[row]) {
      if (!is_send(action.kind)) continue;
      int64_t samples = 0;
      dependencies.each_message(device, action, [&](const Message& message) { samples += message.samples.size(); });
      const auto size = plan.routes[action.route].bytes.evaluate(bindings_of(plan, static_cast<uint32_t>(samples)));
      RANNC_CHECK(size.has_value()) << "a finished plan binds all symbols of its routes";
      bytes[{device, action.peer}] += static_cast<uint64_t>(*size);
    }
  }
  return bytes;
}

}  // namespace rannc::ir
