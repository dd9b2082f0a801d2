// Messages have the same order, bytes and errors over every transport.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/internal/torch_value.h"
#include "runtime/transport/internal/run_member.h"
#include "runtime/transport/transports.h"
#include "tests/runtime/transport/joined_ends.h"

namespace rannc::runtime {
namespace {

using rannc::testing::Ends;
using ::testing::HasSubstr;

constexpr std::chrono::seconds kLong{60};
constexpr std::chrono::milliseconds kShort{200};

const TransportKind kTwoHosts{.name = "two_hosts", .join = rannc::testing::join_two_hosts};

class Messages : public ::testing::TestWithParam<const TransportKind*> {
 protected:
  static Ends open(uint32_t devices, std::chrono::milliseconds timeout = kLong) {
    const TransportKind& kind = *GetParam();
    if (!kind.between_processes()) return kind.open(std::vector<Device*>(devices, &cpu()), timeout);
    Rendezvous common;
    common.workers = devices;
    common.timeout = timeout;
    auto joined = rannc::testing::join_each(common, [&](const Rendezvous& where) { return kind.join(where, cpu()); });
    EXPECT_EQ(joined.failures, std::vector<std::string>(devices));
    return std::move(joined.ends);
  }
};

TensorSpec spec_of(const at::Tensor& tensor) {
  return {to_dtype(tensor.scalar_type()).value(), {tensor.sizes().begin(), tensor.sizes().end()}};
}

const std::vector<at::ScalarType> kTypes = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong,
                                            at::kInt,   at::kShort,  at::kChar, at::kByte,     at::kBool};
// Nothing, a scalar, a few samples, and more than any buffer on the way holds.
const std::vector<std::vector<int64_t>> kShapes = {{0, 3}, {}, {7, 5}, {1 << 15, 3}};

std::vector<at::Tensor> tensors_from(uint32_t device) {
  std::vector<at::Tensor> tensors;
  for (const auto& shape : kShapes) {
    for (const at::ScalarType type : kTypes) {
      const int64_t count = c10::multiply_integers(shape);
      const at::Tensor numbers = at::arange(count, at::kLong).remainder(97) + device;
      tensors.push_back(numbers.to(type).view(shape));
    }
  }
  return tensors;
}

MessageKey key_of(size_t message) { return {.route = static_cast<uint32_t>(message), .micro_batch = 3}; }

// All devices send everything to all others before they receive anything. The last message is awaited first.
TEST_P(Messages, CarryAllTypesAndSizes) {
  constexpr uint32_t kDevices = 4;
  Ends ends = open(kDevices);
  rannc::testing::on_each(kDevices, [&](uint32_t device) {
    Transport& end = *ends[device];
    for (const SentValue sent : {SentValue::kFreedWhenTaken, SentValue::kHeldUntilAwaited}) {
      const auto own = tensors_from(device);
      std::vector<std::vector<std::unique_ptr<Receipt>>> receipts(kDevices);
      for (uint32_t peer = 0; peer < kDevices; ++peer) {
        for (size_t i = 0; i < own.size() && peer != device; ++i) {
          MessageKey key = key_of(i);
          key.step = sent == SentValue::kFreedWhenTaken ? 0 : 1;
          receipts[peer].push_back(end.receive(key, DeviceId(peer), spec_of(own[i])).value());
        }
      }
      for (size_t i = 0; i < own.size(); ++i) {
        for (uint32_t peer = 0; peer < kDevices; ++peer) {
          if (peer == device) continue;
          MessageKey key = key_of(i);
          key.step = sent == SentValue::kFreedWhenTaken ? 0 : 1;
          ASSERT_TRUE(end.send(key, DeviceId(peer), to_value(own[i]), sent).ok());
        }
      }
      for (uint32_t peer = 0; peer < kDevices; ++peer) {
        const auto expected = tensors_from(peer);
        for (size_t i = receipts[peer].size(); i-- > 0;) {
          const auto arrived = receipts[peer][i]->wait();
          ASSERT_TRUE(arrived.ok()) << arrived.diagnostic().str();
          EXPECT_TRUE(at::equal(to_tensor(arrived->value), expected[i])) << "message " << i << " from " << peer;
          EXPECT_EQ(to_tensor(arrived->value).scalar_type(), expected[i].scalar_type());
        }
      }
      ASSERT_TRUE(end.flush().ok());
    }
  });
  rannc::testing::leave(ends);
}

TEST_P(Messages, AReceiveEndsWithTheTimeOut) {
  Ends ends = open(2, kShort);
  const auto receipt = ends[0]->receive({.step = 2, .route = 5, .micro_batch = 1}, DeviceId(1), {ir::DType::kF32, {1}});
  ASSERT_TRUE(receipt.ok());
  const auto arrived = (*receipt)->wait();
  ASSERT_FALSE(arrived.ok());
  EXPECT_THAT(arrived.diagnostic().str(),
              HasSubstr("ms for device 1 to send the activation of route 5, micro-batch 1"));
  ends[0]->abort(arrived.diagnostic());
  rannc::testing::leave(ends);
}

// Whatever the device waits for: a message, a sum, or a send to be taken.
TEST_P(Messages, AnAbortEndsAllWaits) {
  constexpr uint32_t kDevices = 4;
  Ends ends = open(kDevices);
  std::vector<DeviceId> members;
  for (uint32_t device = 0; device < kDevices; ++device) members.push_back(DeviceId(device));
  std::vector<std::string> failures(kDevices);
  rannc::testing::on_each(kDevices, [&](uint32_t device) {
    Transport& end = *ends[device];
    Result<void> waited;
    if (device == 0) {
      const auto receipt = end.receive({}, DeviceId(2), {ir::DType::kF32, {1 << 20}});
      const auto arrived = receipt.ok() ? (*receipt)->wait() : Result<Arrived>(receipt.diagnostic());
      if (!arrived.ok()) waited = arrived.diagnostic();
    } else if (device == 1) {
      const auto sums = end.all_reduce({}, members, {to_value(at::ones({100}))});
      if (!sums.ok()) waited = sums.diagnostic();
    } else if (device == 2) {
      waited = end.send({.route = 1}, DeviceId(3), to_value(at::ones({1 << 20})), SentValue::kHeldUntilAwaited);
      if (waited.ok()) waited = end.flush();
      if (waited.ok()) {  // handed over by reference
        while (!end.failure()) std::this_thread::yield();
        waited = *end.failure();
      }
    } else {
      end.abort(error("the disk is full"));
      waited = *end.failure();
    }
    if (!waited.ok()) failures[device] = waited.diagnostic().str();
    EXPECT_FALSE(
        end.send({}, DeviceId((device + 1) % kDevices), to_value(at::ones({1})), SentValue::kFreedWhenTaken).ok());
  });
  for (const std::string& failure : failures) EXPECT_THAT(failure, HasSubstr("the disk is full"));
  rannc::testing::leave(ends);
}

std::vector<const TransportKind*> kinds() {
  std::vector<const TransportKind*> all{&kTwoHosts};
  for (const TransportKind& kind : transports()) {
    if (!kind.needs_nccl) all.push_back(&kind);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Transports, Messages, ::testing::ValuesIn(kinds()),
                         [](const auto& info) { return std::string(info.param->name); });

/// The first error of a device that receives something else than was sent.
std::string refusal(const TransportKind& kind, const TensorSpec& sent, const MessageKey& sent_as) {
  Rendezvous common;
  common.workers = 2;
  auto joined = rannc::testing::join_each(common, [&](const Rendezvous& where) { return kind.join(where, cpu()); });
  const at::Tensor tensor = at::zeros(sent.shape, scalar_type(sent.dtype));
  EXPECT_TRUE(joined.ends[1]->send(sent_as, DeviceId(0), to_value(tensor), SentValue::kFreedWhenTaken).ok());
  const auto receipt = joined.ends[0]->receive({.route = 1}, DeviceId(1), {ir::DType::kF32, {4, 2}});
  const auto arrived = (*receipt)->wait();
  const std::string text = arrived.ok() ? "" : arrived.diagnostic().str();
  joined.ends[0]->abort(error(text));
  rannc::testing::leave(joined.ends);
  return text;
}

// A wrong number would be silent.
TEST(TransportShm, AnotherMessageIsNotTakenForTheExpectedOne) {
  const TransportKind& shm = *find_transport("shm");
  EXPECT_EQ(refusal(shm, {ir::DType::kF32, {4, 2}}, {.route = 1}), "");
  EXPECT_THAT(refusal(shm, {ir::DType::kF32, {4, 2}}, {.route = 2}),
              HasSubstr("device 1 sent the activation of route 2, micro-batch 0 of step 0"));
  EXPECT_THAT(refusal(shm, {ir::DType::kF32, {4, 2}}, {.route = 1, .direction = Direction::kGradient}),
              HasSubstr("device 1 sent the gradient of route 1"));
  EXPECT_THAT(refusal(shm, {ir::DType::kI32, {4, 2}}, {.route = 1}),
              HasSubstr("expected was the activation of route 1"));
}

// Their rings are small, but work.
TEST(TransportShm, PairsWithoutMessagesInThePlanMayStillSend) {
  Rendezvous common;
  common.workers = 2;
  common.pairs = {{DeviceId(0), DeviceId(1)}};
  auto joined = rannc::testing::join_each(
      common, [](const Rendezvous& where) { return find_transport("shm")->join(where, cpu()); });
  const at::Tensor sent = at::arange(100'000, at::kFloat);
  rannc::testing::on_each(2, [&](uint32_t device) {
    Transport& end = *joined.ends[device];
    const auto receipt = end.receive({}, DeviceId(1 - device), spec_of(sent)).value();
    ASSERT_TRUE(end.send({}, DeviceId(1 - device), to_value(sent), SentValue::kFreedWhenTaken).ok());
    EXPECT_TRUE(at::equal(to_tensor(receipt->wait().value().value), sent));
  });
  rannc::testing::leave(joined.ends);
}

TEST(TransportShm, WorkersThatCannotAttachAreNamed) {
  Rendezvous common;
  common.workers = 2;
  common.timeout = kShort;
  // A worker that offers no memory.
  const auto joined = rannc::testing::join_each(common, [](const Rendezvous& where) {
    if (where.rank == 0) return find_transport("shm")->join(where, cpu());
    return join_run(where, [&](const auto& run) -> Result<std::unique_ptr<Transport>> {
      for (const char* what : {"address", "reached", "attached"}) {
        RANNC_TRY(run->client().set(std::string("shm/") + what + "/1", std::string(64, 'f')));
      }
      while (!run->watch().failure()) std::this_thread::yield();
      return *run->watch().failure();
    });
  });
  EXPECT_THAT(joined.failures[0],
              HasSubstr("worker 0 cannot attach shared memory of worker 1: they run on different hosts or in different "
                        "network namespaces; use --transport auto or gloo"));
}

}  // namespace
}  // namespace rannc::runtime
