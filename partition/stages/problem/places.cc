#include "partition/stages/problem/places.h"

#include <algorithm>

#include "partition/schedule/family.h"

namespace rannc::partition {

StagePlaces places_of(const StagePlan& plan) {
  constexpr uint32_t kNone = UINT32_MAX;
  StagePlaces places;
  std::vector<uint32_t> of_device;
  for (uint32_t s = 0; s < plan.stages.size(); ++s) {
    const uint32_t device = plan.stages[s].devices.empty() ? 0 : plan.stages[s].devices.front().index();
    if (device >= of_device.size()) of_device.resize(device + 1, kNone);
    uint32_t& place = of_device[device];
    if (place == kNone) {
      place = places.count();
      places.first_stage.push_back(s);
    }
    places.of_stage.push_back(place);
  }
  return places;
}

uint32_t StagePlaces::most_stages() const {
  std::vector<uint32_t> stages(first_stage.size(), 0);
  for (const uint32_t place : of_stage) ++stages[place];
  return stages.empty() ? 0 : *std::max_element(stages.begin(), stages.end());
}

bool parts_backward(const StagePlan& plan) {
  const ScheduleFamily* family = find_schedule(plan.schedule);
  return family != nullptr && (family->splits_backward || parts_backward(plan.pattern));
}

bool suits(const std::string& schedule, const StagePlan& plan) {
  const ScheduleFamily* family = find_schedule(schedule);
  return family != nullptr && has_layout(family->layout, places_of(plan).of_stage);
}

}  // namespace rannc::partition
