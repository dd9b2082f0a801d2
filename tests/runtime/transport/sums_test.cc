// Sums over devices have the same bits over every transport: those of adding the members in their order.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "runtime/internal/torch_value.h"
#include "tests/runtime/transport/summed_terms.h"

namespace rannc::runtime {
namespace {

constexpr uint32_t kDevices = testing::kSummingDevices;
// One that is sent whole and one that is added in parts, neither a multiple of any number of members.
const std::vector<int64_t> kSizes = {7, 20'011};
const std::vector<at::ScalarType> kTypes = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};

using testing::Ends;
using testing::expected;
using testing::term;
using Sums = testing::SumsTest;

void on_each(const std::function<void(uint32_t)>& job) { testing::on_each(kDevices, job); }

/// What each member gets.
std::vector<at::Tensor> sums(const Ends& ends, const std::vector<DeviceId>& members, at::ScalarType type, int64_t size,
                             uint32_t round) {
  std::vector<at::Tensor> found(members.size());
  on_each([&](uint32_t device) {
    const auto it = std::find(members.begin(), members.end(), DeviceId(device));
    if (it == members.end()) return;
    const CollectiveKey key{0, CollectiveKey::Kind::kOther, round};
    Device& hardware = ends[device]->hardware();
    const auto scope = hardware.enter(Stream::kCompute);
    const auto sum = ends[device]->all_reduce(key, members, {hardware.upload(to_value(term(type, size, device)))});
    ASSERT_TRUE(sum.ok()) << sum.diagnostic().str();
    found[static_cast<size_t>(it - members.begin())] = to_tensor(hardware.download((*sum)[0]));
  });
  return found;
}

TEST_P(Sums, AreThoseInTheOrderOfMembers) {
  Ends ends = open();
  uint32_t round = 0;
  for (uint32_t count = 2; count <= kDevices; ++count) {
    std::vector<DeviceId> members;  // the last ones, so that devices and positions differ
    for (uint32_t device = kDevices - count; device < kDevices; ++device) members.push_back(DeviceId(device));
    for (const at::ScalarType type : kTypes) {
      for (const int64_t size : kSizes) {
        SCOPED_TRACE(::testing::Message()
                     << count << " members, " << at::toString(type) << ", " << size << " elements");
        const at::Tensor wanted = expected(members, type, size);
        for (const at::Tensor& sum : sums(ends, members, type, size, round++)) {
          ASSERT_EQ(sum.scalar_type(), type);
          EXPECT_TRUE(at::equal(sum, wanted));
        }
      }
    }
  }
  testing::leave(ends);
}

/// Calls `job` with the position and the members on the last `count` devices.
void on_members(uint32_t count, const std::function<void(size_t, uint32_t, const std::vector<DeviceId>&)>& job) {
  std::vector<DeviceId> members;
  for (uint32_t device = kDevices - count; device < kDevices; ++device) members.push_back(DeviceId(device));
  on_each([&](uint32_t device) {
    if (device >= kDevices - count) job(device - (kDevices - count), device, members);
  });
}

/// Tensors of different types that are summed in one call.
std::vector<at::Tensor> bucket(uint32_t device, int64_t size) {
  std::vector<at::Tensor> tensors;
  for (const at::ScalarType type : kTypes) {
    for (const int64_t each : {int64_t{0}, size, int64_t{3}}) tensors.push_back(term(type, each, device));
  }
  return tensors;
}

TEST_P(Sums, OfSeveralTensorsAreThoseOfEach) {
  Ends ends = open();
  uint32_t round = 0;
  for (const uint32_t count : {2, 3, 8}) {
    for (const int64_t size : {int64_t{5}, int64_t{3'001}, int64_t{20'011}}) {
      SCOPED_TRACE(::testing::Message() << count << " members, " << size << " elements");
      ++round;
      on_members(count, [&](size_t, uint32_t device, const std::vector<DeviceId>& members) {
        Device& hardware = ends[device]->hardware();
        const auto scope = hardware.enter(Stream::kCompute);
        Values values;
        for (const at::Tensor& tensor : bucket(device, size)) values.push_back(hardware.upload(to_value(tensor)));
        const auto sums = ends[device]->all_reduce({1, CollectiveKey::Kind::kOther, round}, members, values);
        ASSERT_TRUE(sums.ok()) << sums.diagnostic().str();
        ASSERT_EQ(sums->size(), values.size());
        for (size_t k = 0; k < values.size(); ++k) {
          const at::Tensor sum = to_tensor(hardware.download((*sums)[k]));
          EXPECT_TRUE(at::equal(sum, expected(members, sum.scalar_type(), sum.numel()))) << k;
        }
        ASSERT_TRUE(ends[device]->flush().ok());
      });
    }
  }
  testing::leave(ends);
}

/// Cuts a value into a part for each member and one without elements; the first member gets two.
std::vector<Values> cut(const Value& whole, size_t members) {
  const auto size = to_tensor(whole).numel(), count = static_cast<int64_t>(members);
  std::vector<Values> parts(members);
  for (int64_t i = 0; i < count; ++i)
    parts[static_cast<size_t>(i)].push_back(whole->elements(size * i / (count + 1), size * (i + 1) / (count + 1)));
  parts[0].push_back(whole->elements(size * count / (count + 1), size));
  parts[members - 1].push_back(whole->elements(0, 0));
  return parts;
}

TEST_P(Sums, ScatteredOnesAreThoseInTheOrderOfMembers) {
  Ends ends = open();
  uint32_t round = 0;
  for (const uint32_t count : {2, 3, 8}) {
    for (const at::ScalarType type : kTypes) {
      for (const int64_t size : kSizes) {
        SCOPED_TRACE(::testing::Message()
                     << count << " members, " << at::toString(type) << ", " << size << " elements");
        ++round;
        on_members(count, [&](size_t position, uint32_t device, const std::vector<DeviceId>& members) {
          Device& hardware = ends[device]->hardware();
          const auto scope = hardware.enter(Stream::kCompute);
          const Value own = hardware.upload(to_value(term(type, size, device)));
          const CollectiveKey key{0, CollectiveKey::Kind::kReduceScatter, 0, round};
          std::vector<Values> terms = cut(own, count);
          const Values replaced = terms[position];
          const auto pending = ends[device]->begin_reduce_scatter(key, members, std::move(terms));
          ASSERT_TRUE(pending.ok()) << pending.diagnostic().str();
          const auto sums = (*pending)->wait();
          ASSERT_TRUE(sums.ok()) << sums.diagnostic().str();
          const Values wanted = cut(to_value(expected(members, type, size)), count)[position];
          ASSERT_EQ(sums->size(), wanted.size());
          for (size_t k = 0; k < wanted.size(); ++k)
            EXPECT_TRUE(at::equal(to_tensor(hardware.download(replaced[k])), to_tensor(wanted[k]))) << k;
          ASSERT_TRUE(ends[device]->flush().ok());
        });
      }
    }
  }
  testing::leave(ends);
}

TEST_P(Sums, GathersCopyThePartOfEachMember) {
  Ends ends = open();
  uint32_t round = 0;
  for (const uint32_t count : {2, 3, 8}) {
    for (const at::ScalarType type : kTypes) {
      for (const int64_t size : kSizes) {
        SCOPED_TRACE(::testing::Message()
                     << count << " members, " << at::toString(type) << ", " << size << " elements");
        ++round;
        on_members(count, [&](size_t position, uint32_t device, const std::vector<DeviceId>& members) {
          Device& hardware = ends[device]->hardware();
          const auto scope = hardware.enter(Stream::kCompute);
          const Value whole = hardware.upload(to_value(at::full({size}, -1, type)));
          const std::vector<Values> parts = cut(whole, count);
          const std::vector<Values> known = cut(to_value(term(type, size, 0)), count);
          for (size_t k = 0; k < parts[position].size(); ++k)
            parts[position][k]->overwrite(*hardware.upload(known[position][k]));
          const CollectiveKey key{0, CollectiveKey::Kind::kAllGather, 0, round};
          const Result<void> gathered = ends[device]->all_gather(key, members, parts);
          ASSERT_TRUE(gathered.ok()) << gathered.diagnostic().str();
          EXPECT_TRUE(at::equal(to_tensor(hardware.download(whole)), term(type, size, 0)));
          ASSERT_TRUE(ends[device]->flush().ok());
        });
      }
    }
  }
  testing::leave(ends);
}

INSTANTIATE_TEST_SUITE_P(Transports, Sums, ::testing::ValuesIn(testing::sums_cases()),
                         [](const auto& info) { return info.param.name; });

// What the test above rests on: its numbers tell another order and narrow additions apart.
TEST(SummedTerms, TermsTellOrdersApart) {
  std::vector<DeviceId> members, reversed;
  for (uint32_t device = 0; device < kDevices; ++device) members.push_back(DeviceId(device));
  reversed.assign(members.rbegin(), members.rend());
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    EXPECT_FALSE(at::equal(expected(members, type, kSizes[1]), expected(reversed, type, kSizes[1])));
  }
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    at::Tensor narrow = term(type, kSizes[1], 0);
    for (uint32_t device = 1; device < kDevices; ++device) narrow = narrow + term(type, kSizes[1], device);
    EXPECT_FALSE(at::equal(expected(members, type, kSizes[1]), narrow));
  }
}

}  // namespace
}  // namespace rannc::runtime
